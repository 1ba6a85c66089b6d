# SPDX-License-Identifier: Apache-2.0
"""Which files a command means."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens.service.check import Checked
from warplens.service.files import excluded, expand, find
from warplens.service.service import CheckOptions, Service, in_order
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.process.task import Task


def test_a_folder_stands_for_its_cuda_files_and_a_file_for_itself(tmp_path: Path) -> None:
    for name in ("b.cu", "a.cuh", "c.cpp", "sub/d.cu", "node_modules/e.cu", ".cache/f.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = expand([tmp_path, tmp_path / "c.cpp"], ["**/node_modules/**"])
    assert [p.relative_to(tmp_path).as_posix() for p in found] == ["a.cuh", "b.cu", "sub/d.cu", "c.cpp"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "broken.cu").symlink_to(tmp_path / "nowhere.cu")
    assert expand([tmp_path], ()) == [tmp_path / "k.cu"]


def test_what_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        expand([tmp_path / "k.cu"], ())


@pytest.mark.parametrize(
    ("path", "glob", "out"),
    [
        ("/w/build/x.cu", "build/**", True),
        ("/w/a/build/x.cu", "**/build/**", True),
        ("/w/rebuild/x.cu", "**/build/**", False),
        ("/w/a/x.generated.cu", "*.generated.cu", True),
        ("/w/a/x.cu", "*.generated.cu", False),
    ],
)
def test_globs(path: str, glob: str, out: bool) -> None:
    assert excluded(Path(path), [glob]) is out


def test_headers_with_kernels_belong_to_a_folder_and_to_the_units_that_include_them(tmp_path: Path) -> None:
    kernel = "__global__ void k(float* x, int n) { x[threadIdx.x] = n; }\n"
    files = {
        ".gitignore": "made.h\n",
        "k.h": f"#pragma once\n{kernel}",
        "made.h": kernel,
        "declared.hpp": "#define RUN __global__\n// __global__ void c() {}\n__global__ void d(float* x);\n",
        "src/main.cu": '#include "../k.h"\nint main() { k<<<132, 256>>>(nullptr, 1); }\n',
    }
    (tmp_path / "src").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert find([tmp_path], ()).files == (tmp_path / "k.h", tmp_path / "src/main.cu")
    assert [skipped.path for skipped in find([tmp_path], ()).skipped] == [str(tmp_path / "made.h")]

    service, source = Service(tmp_path), CheckOptions(tier="source")
    unit, header = service.check([tmp_path / "src/main.cu"], source).files
    assert unit.kernels == ()
    (found,) = header.kernels
    assert (found.name, found.launched_in) == ("k", (f"{tmp_path / 'src/main.cu'}:2",))
    assert service.check_text(tmp_path / "k.h", files["k.h"]).kernels == header.kernels


def test_sources_that_are_built_as_cuda_belong_to_a_folder(tmp_path: Path) -> None:
    kernel = "__global__ void k(float *x, int n) { x[threadIdx.x] = n; }\n"
    for name in ("scan.cu.cc", "built.c", "for_another_card.cpp", "unlisted.c"):
        (tmp_path / name).write_text(kernel)
    (tmp_path / "host.cu.cc").write_text("int main() { return 0; }\n")
    commands = {
        "built.c": ["nvcc", "-x", "cu", "-c", "built.c"],
        "for_another_card.cpp": ["hipcc", "-c", "x.cpp"],
    }
    listed = [
        {"file": name, "directory": str(tmp_path), "arguments": words} for name, words in commands.items()
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(listed))
    assert find([tmp_path], ()).files == (tmp_path / "built.c", tmp_path / "scan.cu.cc")


@pytest.mark.compiler
def test_parts_of_a_unity_build_are_compiled_in_the_unit_that_includes_them(tmp_path: Path) -> None:
    kernel = "__global__ void {}(real* x, int n) {{ if (threadIdx.x < n) x[threadIdx.x * SPREAD] *= 2; }}\n"
    files = {
        "main.cu": 'typedef float real;\n#define SPREAD 8\n#include "parts/one.cu"\n#include "two.cu"\n'
        "int main() { one<<<132, 256>>>(nullptr, 1); two<<<132, 256>>>(nullptr, 1); }\n",
        "parts/one.cu": kernel.format("one"),
        "two.cu": kernel.format("two"),
        "test/test_alone.cu": '#include "../alone.cu"\n#include "no_such_header.h"\n',
        "alone.cu": "__global__ void alone(float* x) { x[threadIdx.x] *= 2.0f; }\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    service, binary = Service(tmp_path), CheckOptions(tier="binary", arch="sm_90")
    report = service.check([tmp_path / "main.cu"], binary)
    assert [[k.name for k in file.kernels] for file in report.files] == [[], ["one"], ["two"]]
    assert all(kernel.resources for file in report.files for kernel in file.kernels)
    assert not [unknown for unknown in report.unknown if unknown.failed]
    loaded = service.settings_for(tmp_path)
    units = {name: service.unit(tmp_path / name, loaded) for name in ("main.cu", "two.cu", "alone.cu")}
    whole = tmp_path / "main.cu"
    assert units == {"main.cu": whole, "two.cu": whole, "alone.cu": tmp_path / "alone.cu"}


def test_a_part_of_several_units_is_compiled_in_the_one_that_is_built(tmp_path: Path) -> None:
    for name in ("cuckoo.cu", "join.cu"):
        (tmp_path / name).write_text(
            '#include "scan.cu"\n__global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }\n'
        )
    (tmp_path / "scan.cu").write_text("__global__ void scan(float* x) { x[threadIdx.x] += 1.0f; }\n")
    built = {"file": "join.cu", "directory": str(tmp_path), "arguments": ["nvcc", "-c", "join.cu"]}
    service = Service(tmp_path)
    loaded = service.settings_for(tmp_path)
    assert service.unit(tmp_path / "scan.cu", loaded) == tmp_path / "cuckoo.cu"
    (tmp_path / "compile_commands.json").write_text(json.dumps([built]))
    assert service.unit(tmp_path / "scan.cu", loaded) == tmp_path / "join.cu"


def test_several_files_at_once_give_the_answer_of_one_after_the_other(tmp_path: Path) -> None:
    for number in range(6):
        text = f"__global__ void k{number}(float* x) {{ x[threadIdx.x * {number + 1}] *= 2.0; }}\n"
        (tmp_path / f"{number}.cu").write_text(text)
    (tmp_path / "binary.cu").write_bytes(b"\0" * 64)
    source = CheckOptions(tier="source")
    alone = Service(tmp_path).check([tmp_path], source)
    at_once = Service(tmp_path).check([tmp_path], source, jobs=4)
    assert at_once == alone
    assert [unknown.failed for unknown in alone.unknown if "binary.cu" in unknown.what] == [True]


def test_a_file_that_fails_ends_the_others_and_not_the_task_of_who_asked() -> None:
    begun, stopped = threading.Event(), list[int]()

    def one(number: int, task: Task) -> Checked:
        if number == 0:
            assert begun.wait(PATIENCE)
            raise InputError("no such file")
        begun.set()
        for _ in range(2000):
            if task.token.cancelled:
                stopped.append(number)
                task.check()
            time.sleep(0.005)
        raise AssertionError("nobody stopped it")

    def one_more(number: int, task: Task) -> Checked:
        task.check()
        raise AssertionError(f"{number} went on")

    task = Task()
    with pytest.raises(InputError, match="no such file"):
        in_order(one, 2, 2, task)
    assert stopped == [1] and not task.token.cancelled
    task.token.cancel()
    with pytest.raises(CancelledError):
        in_order(one_more, 2, 2, task)
