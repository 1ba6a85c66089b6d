# SPDX-License-Identifier: Apache-2.0
"""The PyTorch tasks on the card of this machine, honest and cheating, forward and backward, as JSON.

    python tests/bench/bench_torch_tasks.py [--python PYTHON_WITH_TORCH] [--do-bench] [--jobs 3] [--builds DIR]
        [--modules cuda|plain] [--tasks NAME,…] [--cheats] [--only PATTERN] [--forward] [--json FILE]

Every task with its honest `ModelNew` in inline CUDA, the defective tasks, and modules that cheat (`tests/torch_tasks/
cheats.py`). Several are examined at once; whoever times has the card, and half its memory. `--do-bench` puts what
`triton.testing.do_bench` says of the same modules beside our times. `--tasks` leaves it at these honest modules,
against eager execution alone, and with `--cheats` at what is defective or cheats; `--forward` at their forward pass,
and `--only` at rows whose names match a pattern. `plain` modules, of four of the tasks, are compiled by nvcc in
seconds: those of `cuda`, in PyTorch's own form, take a minute and more of all cores. Whatever is known is written at
once.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec
from tests.torch_tasks.cheats import CHEATS, cheating

from warplens.measure.torch_task.task import TorchTask, examine
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.gpu_lock import gpu_lock

TASKS = Path(__file__).parents[1] / "torch_tasks"
DEFECTIVE = ("next_to_nothing", "ones_in_disguise", "weights_alone")
MEASURED = ("faster", "same", "slower")

#: Prints the median seconds of a call, as `do_bench` measures it, by task, module and direction.
DO_BENCH = """
import importlib.util, json, sys, torch
from triton.testing import do_bench
def loaded(path):
    spec = importlib.util.spec_from_file_location("m", path)
    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
    return module
for path, own in zip(sys.argv[1::2], sys.argv[2::2]):
    task = loaded(path)
    torch.manual_seed(1)
    given = task.get_init_inputs()
    reference = task.Model(*given).cuda()
    new = loaded(own).ModelNew(*given).cuda()
    new.load_state_dict(dict(zip(new.state_dict(), reference.state_dict().values())))
    inputs = [x.cuda() if torch.is_tensor(x) else x for x in task.get_inputs()]
    with torch.no_grad():
        outs = reference(*inputs)
    along = [torch.rand_like(o) + 0.5 for o in (outs if isinstance(outs, tuple) else (outs,))]
    for name, model in (("eager", reference), ("new", new)):
        def forward():
            with torch.no_grad(): model(*inputs)
        def backward():
            leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
            model.zero_grad(set_to_none=True)
            o = model(*leaves)
            torch.autograd.backward(list(o) if isinstance(o, tuple) else [o], along)
        for direction, call in (("forward", forward), ("backward", backward))[: DIRECTIONS]:
            seconds = do_bench(call, warmup=50, rep=300, return_mode="median") / 1e3
            print(json.dumps([path, direction, name, seconds]), flush=True)
"""


def built(options: argparse.Namespace) -> float:
    """Build all extensions side by side; the seconds that took."""
    started = time.monotonic()
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": options.builds, "MAX_JOBS": "2"}
    names = chosen(options)
    running = [
        subprocess.Popen([options.python, str(module_of(name, options))], env=environment) for name in names
    ]
    for name, process in zip(names, running, strict=True):
        if process.wait():
            sys.stderr.write(f"{name} does not build\n")
    return time.monotonic() - started


def chosen(options: argparse.Namespace) -> tuple[str, ...]:
    """The tasks with an honest module that are examined."""
    sound = sorted(path.stem for path in (TASKS / options.modules).glob("*.py"))
    return tuple(options.tasks.split(",") if options.tasks else sound)


def module_of(name: str, options: argparse.Namespace) -> Path:
    """The file of a task's honest module."""
    return TASKS / str(options.modules) / f"{name}.py"


def cases(folder: Path, options: argparse.Namespace) -> list[tuple[str, TorchTask, str, str]]:
    """Name, what is examined, the state that is right ("" for any that was measured), and what is said then."""
    found: list[tuple[str, TorchTask, str, str]] = []
    for backward in (False,) if options.forward else (False, True):
        for name in chosen(options):
            task = TASKS / f"tasks/{name}.py"
            asked = TorchTask(str(task), str(module_of(name, options)), backward=backward)
            if backward:
                # what torch.compile makes of a backward pass takes it minutes
                asked = msgspec.structs.replace(asked, baselines=("tf32", "bf16"))
            if options.tasks:
                asked = msgspec.structs.replace(asked, baselines=())
            found.append((f"{name}{' backward' if backward else ''}", asked, "", ""))
    if options.tasks and not options.cheats:
        return found
    for name in DEFECTIVE:
        task, candidate = TASKS / f"tasks/{name}.py", module_of("damped_wave", options)
        asked = TorchTask(str(task), str(candidate), baselines=())
        found.append((name, asked, "refused", "cannot tell right from wrong"))
    for cheat in CHEATS:
        own = folder / cheat.name.replace(" ", "_")
        own.mkdir()
        (own / "new.py").write_text(cheating(cheat, TASKS / options.modules))
        asked = TorchTask(
            str(TASKS / f"tasks/{cheat.task}.py"), str(own / "new.py"), backward=cheat.backward, baselines=()
        )
        found.append((f"cheat: {cheat.name}", asked, cheat.state, cheat.said))
    return found


def examined(case: tuple[str, TorchTask, str, str], options: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    name, asked, state, said = case
    asked = msgspec.structs.replace(asked, builds=options.builds)
    row: dict[str, Any] = {"case": name, "backward": asked.backward, "task": Path(asked.task).stem}
    started = time.monotonic()
    try:
        row |= msgspec.to_builtins(examine(asked, python=options.python))
        row["as_it_should"] = said in row["reason"] and (
            row["state"] == state if state else row["state"] in MEASURED
        )
    except WarplensError as error:
        row |= {"state": "", "reason": f"{type(error).__name__}: {error}", "as_it_should": False}
    row["wall_seconds"] = time.monotonic() - started
    mark = "" if row["as_it_should"] else "NOT AS IT SHOULD: "
    sys.stderr.write(f"{mark}{name}: {row['state']}: {row['reason']} ({row['wall_seconds']:.0f} s)\n")
    return row


def do_bench(options: argparse.Namespace) -> Iterator[tuple[str, bool, str, float]]:
    """Task, whether backward, "eager" or "new", and the seconds by `do_bench`, as they come."""
    paths = [
        str(path)
        for name in chosen(options)
        for path in (TASKS / f"tasks/{name}.py", module_of(name, options))
    ]
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": options.builds}
    script = DO_BENCH.replace("DIRECTIONS", "1" if options.forward else "2")
    command = [options.python, "-c", script, *paths]
    with (
        gpu_lock(present_gpus()[0].uuid, "do_bench"),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            path, direction, module, seconds = json.loads(line)
            yield Path(path).stem, direction == "backward", module, seconds


def compared(rows: list[dict[str, Any]], theirs: list[tuple[str, bool, str, float]]) -> list[dict[str, Any]]:
    """Our seconds beside do_bench's."""
    ours = {(r["case"].split()[0], r["backward"]): r["seconds"] for r in rows if r.get("seconds")}
    return [
        {
            "task": task,
            "backward": backward,
            "module": module,
            "do_bench_seconds": seconds,
            "our_seconds": ours[task, backward][module][0],
            "off": ours[task, backward][module][0] / seconds - 1.0,
        }
        for task, backward, module, seconds in theirs
        if (task, backward) in ours
    ]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--do-bench", action="store_true")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--builds", default="")
    parser.add_argument("--modules", default="cuda", choices=["cuda", "plain"])
    parser.add_argument("--tasks", default="")
    parser.add_argument("--cheats", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {
        "command": "python tests/bench/bench_torch_tasks.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": present_gpus()[0].name,
        "driver": present_gpus()[0].driver,
    }
    rows: list[dict[str, Any]] = []
    writing = threading.Lock()

    def keep(**more: Any) -> None:
        with writing:
            result.update(more)
            if options.json:
                options.json.write_text(json.dumps(result | {"rows": rows}, indent=1) + "\n")

    with tempfile.TemporaryDirectory(prefix="warplens-bench-") as folder:
        options.builds = options.builds or f"{folder}/builds"
        Path(options.builds).mkdir(parents=True, exist_ok=True)
        keep(build_seconds=built(options))
        sys.stderr.write(f"built in {result['build_seconds']:.0f} s\n")
        theirs: list[tuple[str, bool, str, float]] = []
        for one in do_bench(options) if options.do_bench else ():
            theirs.append(one)
            keep(do_bench_seconds=theirs)
        with ThreadPoolExecutor(options.jobs) as pool:
            wanted = [case for case in cases(Path(folder), options) if re.search(options.only, case[0])]
            work = [pool.submit(examined, case, options) for case in wanted]
            for done in as_completed(work):
                rows.append(done.result())
                right = sum(r["as_it_should"] for r in rows)
                beside = compared(rows, theirs)
                worst = max((abs(c["off"]) for c in beside), default=None)
                keep(as_they_should=right, of=len(work), do_bench=beside, furthest_from_do_bench=worst)
    if not options.json:
        sys.stdout.write(json.dumps(result | {"rows": rows}, indent=1) + "\n")
    return 0 if all(r["as_it_should"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
