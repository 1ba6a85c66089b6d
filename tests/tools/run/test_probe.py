# SPDX-License-Identifier: Apache-2.0
"""The probe without a GPU: it builds, its pure parts hold, and jobs and records cross the border whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kept import digest_of, kept, version_of
from tests.tools.run.probe_parts import CPP, HEADERS, PROBE, Parts, says

from warplens_tools.errors import InputError, ToolFailedError
from warplens_tools.process.task import Task
from warplens_tools.run.probe import library
from warplens_tools.run.probe.job import (
    Job,
    JobCandidate,
    JobField,
    JobParameter,
    JobVariable,
    Shape,
    Variant,
    VariantKind,
    encode_job,
)
from warplens_tools.run.probe.records import RecordReader, ResultRecord
from warplens_tools.toolchain.locate import resolve_toolchain

#: What calls the driver directly.
DRIVING = ("memory", "launch", "driver", "compare", "rounding", "record", "job", "rule")
ORACLE = (
    *(
        "oracle",
        "written",
        "learn",
        "moves",
        "reference",
        "isolation",
        "grids",
        "verify",
        "again",
        "poison",
        "on_card",
    ),
    *("inputs", "areas", "values", "passed", "rooms", "guess", "stats", *DRIVING),
)
ACCOMPANY = ("accompany", "calls", "plan", "blocks", "allocations", *ORACLE)
VISIT = ("visit", "instead", "trial", "twin", "scrub", "blocks", "allocations", *ORACLE)
GRAPHS = ("executables", "graph", "replay", *DRIVING)
PURE = ("compare.cpp", "job.cpp", "record.cpp", "rounding.cpp", "rule.cpp", "stats.cpp")


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return Parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="session")
def probe_test(parts: Parts) -> Path:
    """The C++ tests, built without CUDA."""
    return parts.program([CPP / "probe_test.cpp", *(PROBE / name for name in PURE)])


@pytest.mark.compiler
def test_the_pure_parts_hold(probe_test: Path) -> None:
    done = subprocess.run([probe_test], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.compiler
def test_the_judges_arithmetic_is_not_fooled(parts: Parts) -> None:
    """Honest rewrites of simulated kernels are right, wrong ones are not."""
    sources = [
        CPP / "tolerance_test.cpp",
        CPP / "simulated.cpp",
        PROBE / "compare.cpp",
        PROBE / "rounding.cpp",
    ]
    program = parts.program(sources)
    done = subprocess.run([program, "1", "3"], capture_output=True, text=True, check=False)
    *mistakes, counts = done.stdout.splitlines()
    assert mistakes == []
    assert json.loads(counts) == {"honest": 249, "called_wrong": 0, "wrong": 654, "let_through": 0}


@pytest.fixture(scope="session")
def graph_test(parts: Parts) -> Path:
    """The probe's reading, following and replaying of graphs."""
    return parts.on_fake_driver(("graph_test", "fake_graphs"), GRAPHS)


@pytest.mark.compiler
def test_a_graph_is_copied_followed_and_replayed(graph_test: Path) -> None:
    """Order, argument copies, attributes, child graphs, updates, and what is refused."""
    done = subprocess.run([graph_test], capture_output=True, text=True, check=False)
    *mistakes, counts = done.stdout.splitlines()
    assert mistakes == []
    assert json.loads(counts) == {"expectations": 59, "mistakes": 0}


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("version", "said"),
    [("12000", "tells no kernel's name"), ("12030", "tells no kernel's parameters"), ("12040", "")],
)
def test_a_driver_too_old_to_read_a_graph_is_named(graph_test: Path, version: str, said: str) -> None:
    done = subprocess.run([graph_test, version], capture_output=True, text=True, check=True)
    assert said in done.stdout
    assert bool(said) == bool(done.stdout.strip())


@pytest.mark.compiler
def test_the_oracle_learns_and_judges_as_on_a_card(parts: Parts) -> None:
    """The probe's own oracle and memory, on a driver that runs launches on the host."""
    program = parts.on_fake_driver(("oracle_test",), ORACLE)
    assert says(program, '{"programs": 25, "mistakes": 0, "lowered": 0}\n', "1", "1")
    # of half, bfloat16 and TF32 inputs where rounding them explains the difference; nothing else passes with them:
    # not where mixed signs make the results differences, nor where a spike is most of a mean and a variance
    assert says(program, '{"programs": 25, "mistakes": 0, "lowered": 50}\n', "1", "1", "lowered")


@pytest.mark.compiler
@pytest.mark.thorough
def test_a_program_is_accompanied_as_on_a_card(parts: Parts) -> None:
    """Which launches are compared, whose results stand, by both ways of launching the candidate instead."""
    program = parts.on_fake_driver(("accompany_test",), ACCOMPANY)
    assert says(program, '{"expectations": 131, "mistakes": 0}\n')


@pytest.mark.compiler
@pytest.mark.thorough
def test_lengths_grow_where_there_is_room(parts: Parts) -> None:
    program = parts.on_fake_driver(("rooms_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
def test_who_writes_what_lies_there_already_writes_where_the_kernel_does(parts: Parts) -> None:
    program = parts.on_fake_driver(("written_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
def test_what_is_finite_beside_nan_and_numbers_of_64_bits_count(parts: Parts) -> None:
    program = parts.on_fake_driver(("telling_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
def test_infinities_that_meet_zeros_with_a_sign_and_lengths_of_zero_count(parts: Parts) -> None:
    program = parts.on_fake_driver(("meeting_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
def test_a_visit_looks_beyond_the_programs_sizes(parts: Parts) -> None:
    program = parts.on_fake_driver(("visit_test",), VISIT)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
@pytest.mark.thorough
def test_inputs_vary_in_every_way_that_could_be_memorised(parts: Parts) -> None:
    program = parts.on_fake_driver(("variants_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


@pytest.mark.compiler
def test_conditions_that_the_programs_own_inputs_never_meet_are_met(parts: Parts) -> None:
    program = parts.on_fake_driver(("conditions_test",), ORACLE)
    assert says(program, '{"mistakes": 0}\n')


words = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=12)
lines = st.lists(words, min_size=1, max_size=3).map(" ".join)
extents = st.tuples(*[st.integers(1, 2**31 - 1)] * 3)
numbers = st.floats(-1e6, 1e6, allow_nan=False)
shapes = st.builds(Shape, grid=extents, block=extents, shared=st.integers(0, 2**20))
KINDS = (
    *("redrawn", "permuted", "signs", "zeros", "spikes", "blanks", "specials", "flags", "skewed", "ranged"),
    *("full", "less", "halved", "halves", "naught", "vacant", "repeated", "raised", "shifted", "more"),
    *("asked", "below", "infinities", "ties", "plus", "voids", "met", "ranks"),
    *("striped", "turned", "stepped", "vast", "longer", "upper", "nicked", "near", "halfway"),
    *("fields", "centred", "tagged", "brim", "linked", "lowered", "endmost"),
    *("scalars", "nulls", "wide", "endless", "toggled", "many", "few"),
    *("reshaped", "numbers", "fewer", "mingled", "standing", "high", "aliased", "reached"),
    *("settled", "loose", "masked", "tables", "against", "none", "minus", "past", "moved"),
)
fields = st.builds(
    JobField,
    offset=st.integers(0, 4096),
    element=st.sampled_from(["other", "f64", "f32", "f16", "bf16", "integer"]),
    width=st.sampled_from([0, 1, 2, 4, 8]),
    pointer=st.booleans(),
)
pointers = st.lists(
    st.builds(
        JobParameter,
        index=st.integers(0, 30),
        element=st.sampled_from(["other", "f64", "f32", "f16", "bf16", "integer"]),
        constant=st.booleans(),
        table=st.booleans(),
        scalar=st.booleans(),
        optional=st.booleans(),
        width=st.sampled_from([0, 1, 2, 4, 8]),
        size=st.integers(0, 4096),
        fields=st.lists(fields, max_size=3).map(tuple),
    ),
    max_size=4,
).map(tuple)
jobs = st.builds(
    Job,
    mode=st.sampled_from(["survey", "visit", "accompany"]),
    result=lines,
    parent=st.integers(0, 2**22),
    helpers=lines,
    kernel=words,
    shape=shapes,
    launch=st.integers(0, 2**40),
    seed=st.integers(0, 2**63),
    parameters=pointers,
    variants=st.lists(
        st.builds(
            Variant,
            name=lines,
            scale=numbers,
            noise=numbers,
            kind=st.sampled_from(KINDS),
            target=st.integers(-1, 9),
            beside=st.lists(
                st.builds(Variant, name=lines, kind=st.sampled_from(KINDS), target=st.integers(-1, 9)),
                max_size=2,
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    candidates=st.lists(
        st.builds(
            JobCandidate,
            id=lines,
            cubin=lines,
            entry=words,
            grid=st.none() | extents,
            block=st.none() | extents,
            shared=st.none() | st.integers(0, 2**20),
            variables=st.lists(st.builds(JobVariable, name=words, live=words), max_size=2).map(tuple),
            kernel=words,
            launches=st.integers(0, 2**40),
            parameters=pointers,
            geometries=st.lists(st.tuples(shapes, shapes), max_size=2).map(tuple),
            by_rule=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
    # what is said of it is said of none of the candidates
    twin=st.none() | st.builds(JobCandidate, id=lines, cubin=lines, entry=words),
    marks=words,
    tags=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**32 - 1)), max_size=2).map(tuple),
    options=st.dictionaries(words, numbers, max_size=3),
)


def test_every_kind_of_variant_has_its_number() -> None:
    assert sorted(KINDS) == sorted(get_args(VariantKind))


@pytest.mark.compiler
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=jobs)
def test_a_job_is_read_as_it_was_written(probe_test: Path, tmp_path: Path, job: Job) -> None:
    path = tmp_path / "job"
    path.write_text(encode_job(job))
    done = subprocess.run([probe_test, "job", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    read = json.loads(done.stdout)
    assert job.shape is not None
    assert (read["mode"], read["result"], read["kernel"]) == (job.mode, job.result, job.kernel)
    assert (tuple(read["grid"]), tuple(read["block"])) == (job.shape.grid, job.shape.block)
    assert (read["shared"], read["launch"], read["seed"]) == (job.shape.shared, job.launch, job.seed)
    assert read["options"] == len(job.options)
    assert [(p["index"], p["constant"], p["table"], p["scalar"], p["width"]) for p in read["parameters"]] == [
        (p.index, p.constant, p.table, p.scalar, p.width) for p in job.parameters
    ]
    assert [[tuple(field) for field in p["fields"]] for p in read["parameters"]] == [
        [(p.size, f.offset, f.width, int(f.pointer)) for f in p.fields] for p in job.parameters
    ]
    assert [KINDS[int(v["kind"])] for v in read["variants"]] == [v.kind for v in job.variants]
    assert [v["target"] for v in read["variants"]] == [v.target for v in job.variants]
    assert [v["beside"] for v in read["variants"]] == [
        [[KINDS.index(b.kind), b.target] for b in v.beside] for v in job.variants
    ]
    assert [v["name"] for v in read["variants"]] == [v.name for v in job.variants]
    assert [v["scale"] for v in read["variants"]] == pytest.approx([v.scale for v in job.variants])
    for mine, theirs in zip(job.candidates, read["candidates"], strict=True):
        assert (theirs["id"], theirs["cubin"], theirs["entry"]) == (mine.id, mine.cubin, mine.entry)
        assert tuple(theirs["grid"]) == (mine.grid or (0, 0, 0))
        assert theirs["shared"] == (-1 if mine.shared is None else mine.shared)
        live = [[v.name, "" if v.live == "-" else v.live] for v in mine.variables]
        assert theirs["variables"] == live
        assert (theirs["stands"], theirs["launches"]) == (mine.kernel, mine.launches)
        assert theirs["pointers"] == len(mine.parameters)
        assert theirs["by_rule"] == mine.by_rule
        mapped = [(*new.grid, *new.block, new.shared) for _, new in mine.geometries]
        assert [tuple(shape) for shape in theirs["shapes"]] == mapped


@pytest.mark.compiler
@given(line=st.sampled_from(["nonsense 3", "launch x", "grid 1 2", "shape 1 2 3", "option a", "cubin x"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bad_job_is_refused_with_its_line(probe_test: Path, tmp_path: Path, line: str) -> None:
    path = tmp_path / "job"
    path.write_text(f"mode visit\nresult r\n{line}\n")
    done = subprocess.run([probe_test, "job", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert line in done.stdout


def test_a_line_break_cannot_enter_a_job() -> None:
    with pytest.raises(InputError, match="line break"):
        encode_job(Job("visit", "/tmp/a\nmode survey"))


def test_records_are_read_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "records"
    reader = RecordReader(path)
    assert reader.read() == []
    whole = msgspec.json.encode(ResultRecord("a", "right", "")) + b"\n"
    path.write_bytes(whole + whole[:20])
    assert [type(r) for r in reader.read()] == [ResultRecord]
    with path.open("ab") as file:
        file.write(whole[20:])
    assert reader.read() == [ResultRecord("a", "right", "")]
    assert len(reader.records) == 2


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.thorough
def test_the_library_builds_once(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("cupti_library") is None:
        pytest.skip("no CUPTI")

    real = library._compile

    def compiling(command: Sequence[str], folder: Path, task: Task) -> None:
        """A source is compiled for the tests of its parts too."""
        if "c++-header" in command:
            return
        if "-c" not in command:
            real(command, folder, task)
            return
        *before, _, source, _, name = command
        if "-include" in before:
            del before[before.index("-include") :]
        shutil.copyfile(parts.object(before, Path(source)), folder / name)

    monkeypatch.setattr(library, "_compile", compiling)

    def build(out: Path) -> None:
        monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
        first = library.probe_library(toolchain)
        stamp = first.stat().st_mtime_ns
        assert library.probe_library(toolchain) == first
        assert first.stat().st_mtime_ns == stamp
        kernels = library.helper_kernels(toolchain, "sm_90")
        assert kernels.read_bytes().startswith(b"\x7fELF")
        shutil.copyfile(first, out)

    versions = [version_of(toolchain.require(name).path) for name in ("host_compiler", "nvcc")]
    headers = [toolchain.require(name).path for name in ("cupti_library", *HEADERS)]
    built = kept("probe.so", digest_of(*versions, *headers, PROBE), build)
    command = ["nm", "-D", "--defined-only", str(built)]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # what it exported of its C++ library would be mixed with others' in programs that have none
    assert [line.split()[-1] for line in symbols.splitlines()] == ["InitializeInjection"]


@pytest.mark.compiler
def test_a_library_that_cannot_be_built_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("cupti_library") is None:
        pytest.skip("no CUPTI")
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "broken.cpp").write_text("int x = ;\n")
    monkeypatch.setattr(library, "SOURCES", sources)
    monkeypatch.setattr(library, "_SHARED", ("cstddef",))
    with pytest.raises(ToolFailedError, match=r"the probe cannot be built: .*error") as caught:
        library.probe_library(toolchain)
    assert "C++17 compiler" in caught.value.remedy
