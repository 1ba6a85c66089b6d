# SPDX-License-Identifier: Apache-2.0
"""Makes recordings of the planted programs, their twins and the controls, which the counters tier is judged by.

    python tests/planted/record.py REPORTS [--into tests/planted/recordings]
    python tests/planted/record.py --gpu [--into FOLDER] [--seconds 300] [NAME …]
    python tests/planted/record.py --gains planted.json

REPORTS is an archive or a folder of Nsight Compute's reports, each named as its program (`chain_walk.ncu-rep`,
`chain_walk.fixed.ncu-rep` or `chain_walk_fixed.ncu-rep`). With `--gpu` they are collected on this machine's card, as
`warplens profile` collects them. A recording keeps what Warplens reads, and nothing else of a report. With
`--gains` what each twin gained is taken from the figures of `evaluate.py --gpu --json`.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.planted.on_card import build_programs
from tests.planted.scoring import GAINS, RECORDINGS, controls, planted, twin_of
from tests.planted.trimmed import write_recording

from warplens_tools.arch.load import load_gpu
from warplens_tools.collect.ncu import NcuRequest, collect_counters
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.collect.recording import SUFFIX
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import WarplensError
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain


def convert(reports: Path, into: Path) -> list[str]:
    """Record every report of a folder or an archive; the names of the recordings."""
    if reports.is_dir():
        return [_convert(report, into) for report in sorted(reports.glob("*.ncu-rep"))]
    with tempfile.TemporaryDirectory() as folder, tarfile.open(reports) as archive:
        archive.extractall(folder, filter="data")
        return convert(Path(folder), into)


def _convert(report: Path, into: Path) -> str:
    name = report.stem.removesuffix("_fixed") + ".fixed" if report.stem.endswith("_fixed") else report.stem
    write_recording(into / f"{name}{SUFFIX}", read_report(report, toolchain=resolve_toolchain()))
    return name


def collect(names: Sequence[str], into: Path, seconds: float) -> list[str]:
    """Record on this machine's card until `seconds` are over; what could not be, with the reason."""
    deadline, toolchain = time.monotonic() + seconds, resolve_toolchain()
    programs = planted(names)
    paths = [*programs, *controls(names), *map(twin_of, programs)]
    problems = []
    with tempfile.TemporaryDirectory() as place:
        for path, built in build_programs(paths, Path(place), load_gpu(None).arch).items():
            if time.monotonic() > deadline:
                problems.append(f"{path.name}: no time left")
                continue
            try:
                launches = tuple(_profiled(path, built, Path(place), toolchain))
            except WarplensError as error:
                problems.append(f"{path.name}: {error}")
                continue
            write_recording(into / f"{path.name.removesuffix('.cu')}{SUFFIX}", launches)
    return problems


def _profiled(path: Path, built: Path, folder: Path, toolchain: Toolchain) -> Iterator[ProfiledLaunch]:
    """The first launch of every kernel that the program launches, with all that `warplens profile` may ask for."""
    model = parse(SourceText.read(path), str(path))
    for kernel in model.kernels:
        if model.launches_of(kernel):
            request = NcuRequest(kernel=kernel.name, tensor=True, atomics=True, constants=True)
            yield from collect_counters([str(built)], request, toolchain=toolchain, workdir=folder / "ncu")


def keep_gains(figures: Path, into: Path) -> None:
    """What the twins gained on a card, by program, with the card and the date."""
    card = msgspec.json.decode(figures.read_bytes())["card"]
    gained = {p["program"]: p["measured_gain"] for p in card["programs"] if p["measured_gain"] is not None}
    kept = {"gpu": card["gpu"], "driver": card["driver"], "date": card["date"], "gains": gained}
    (into / GAINS.name).write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def main() -> int:
    """Record; see the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", help="an archive or folder of reports; with --gpu names of programs"
    )
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--into", type=Path, default=RECORDINGS)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--gains", type=Path)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    if options.gains is not None:
        keep_gains(options.gains, options.into)
    if options.gpu:
        sys.stdout.write("\n".join([*collect(options.what, options.into, options.seconds), "done"]) + "\n")
        return 0
    for reports in options.what:
        sys.stdout.write(f"{reports}: {len(convert(Path(reports), options.into))} recordings\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
