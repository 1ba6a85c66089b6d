# SPDX-License-Identifier: Apache-2.0
"""What is asked of the findings on the planted programs, and how well they answer at one tier.

A program marks the line of its cause with `// expect: slug`, and the kernel with `// class: …` on the line
before it. `NAME.fixed.cu` is the same program with the cause removed. What is asked of each tier:

    top-1, top-3   the cause is the first, or one of the first three, in its kernel's list
    line           the finding stands within two lines of the mark
    class          the kernel's class is the marked one
    twins          the finding is gone from the repaired program
    controls       no finding of severity warning or above

Above the binary tier a program is judged by its recording, and one without a recording is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.disassembled import checked_soon
from tests.services import service_for

from warplens.service.profile import ProfileOptions, profile_file
from warplens.service.report import FileReport
from warplens.service.service import CheckOptions
from warplens_tools.arch.load import load_gpu
from warplens_tools.collect.recording import SUFFIX
from warplens_tools.evidence import Tier
from warplens_tools.finding import Finding

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
#: What the twins gained on the card that the recordings are from.
GAINS = RECORDINGS / "gains.json"
_EXPECT = re.compile(r"//\s*expect:\s*([\w-]+)")
_CLASS = re.compile(r"//\s*class:\s*(\w+)")
LINES_APART = 2
#: What `make test` examines: programs of every class and a few controls. The others' tests are thorough.
QUICK = frozenset(
    {
        *("block_error", "chain_walk", "decay_response", "heat_rod", "mixed_filters", "orbit_steps"),
        *("head_split", "sensor_frames", "sgemm_tiles", "softmax_rows", "vector_copy"),
    }
)


class Mark(msgspec.Struct, frozen=True):
    """What one planted program says of itself."""

    slug: str
    line: int
    bound: str
    #: The line of the class mark: the kernel is the next one. The cause may stand in the host's code.
    above: int


class Outcome(msgspec.Struct, frozen=True):
    """What was found of one planted program and its twin."""

    program: str
    slug: str
    kernel: str
    #: 1 is first; None where the cause was not found.
    rank: int | None
    #: Lines between the finding and the mark; None where it was not found.
    lines_apart: int | None
    bound: str
    expected_bound: str
    gain: float | None
    #: Slugs of the kernel's findings, best first.
    found: tuple[str, ...]
    #: Slugs of severity warning and above in the twin, and whether the cause is gone from it.
    #: None where the twin was not examined.
    twin: tuple[str, ...]
    twin_clean: bool | None


class Alarm(msgspec.Struct, frozen=True):
    """What was said about one control."""

    program: str
    warnings: tuple[str, ...]
    information: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """One tier's examination."""

    tier: str
    arch: str
    outcomes: tuple[Outcome, ...]
    controls: tuple[Alarm, ...]

    def share(self, *, within: int) -> float:
        """Share of the programs whose cause is among the first `within` findings."""
        return _share([o.rank is not None and o.rank <= within for o in self.outcomes])

    @property
    def line(self) -> float:
        """Share of the programs whose cause was found within two lines of its mark."""
        return _share([o.lines_apart is not None and o.lines_apart <= LINES_APART for o in self.outcomes])

    @property
    def bound(self) -> float:
        """Share of the programs whose class is the marked one."""
        return _share([o.bound == o.expected_bound for o in self.outcomes])

    @property
    def twins(self) -> float:
        """Share of the twins from which the finding is gone."""
        return _share([o.twin_clean for o in self.outcomes if o.twin_clean is not None])

    @property
    def silent(self) -> float:
        """Share of the controls without a warning."""
        return _share([not c.warnings for c in self.controls])


def planted(names: Sequence[str] = ()) -> list[Path]:
    """The planted programs, by name; all where none is named."""
    every = sorted(p for p in HERE.glob("*.cu") if not p.name.endswith(".fixed.cu"))
    return [p for p in every if not names or p.stem in names]


def controls(names: Sequence[str] = ()) -> list[Path]:
    """The tuned programs."""
    return [p for p in sorted((HERE / "controls").glob("*.cu")) if not names or p.stem in names]


def twin_of(path: Path) -> Path:
    """The repaired program of a planted one."""
    return path.with_name(f"{path.stem}.fixed.cu")


def mark_of(path: Path) -> Mark:
    """The one mark of a planted program."""
    lines = path.read_text("utf-8").splitlines()
    ((line, slug),) = [(n, s) for n, text in enumerate(lines, 1) for s in _EXPECT.findall(text)]
    above, bound = next((n, b) for n, text in enumerate(lines, 1) for b in _CLASS.findall(text))
    return Mark(slug, line, bound, above)


def examine(names: Sequence[str], tier: Tier, arch: str) -> Score:
    """Check every program, twin and control at a tier that runs nothing."""
    programs, tuned = planted(names), controls(names)
    paths = [*programs, *map(twin_of, programs), *tuned]
    if tier == "binary":
        _checked_soon(paths, arch)
    report = service_for(HERE, *paths).check(paths, CheckOptions(tier=tier, arch=arch or None))
    return _scored(tier, arch, programs, tuned, {Path(file.path).name: file for file in report.files})


def examine_recorded(names: Sequence[str], recordings: Mapping[str, Path], arch: str = "") -> Score:
    """Check every program, twin and control that has a recording, by file name, with what it counted."""
    programs, tuned = planted(names), controls(names)
    paths = [*programs, *map(twin_of, programs), *tuned]
    service, by_name = service_for(HERE, *paths), dict[str, FileReport]()
    _checked_soon(paths, arch)
    for path in paths:
        if path.name in recordings:
            options = ProfileOptions(reports=(recordings[path.name],), arch=arch or None)
            by_name[path.name] = profile_file(service, path, options).files[0]
    return _scored("counters", arch, programs, tuned, by_name)


def _checked_soon(paths: Sequence[Path], arch: str) -> None:
    programs = planted(tuple(QUICK))
    quick = frozenset({*programs, *map(twin_of, programs), *controls(tuple(QUICK))})
    checked_soon(HERE, *paths, arch=arch or load_gpu(None).arch, quick=quick)


def recorded_gains() -> dict[str, float]:
    """What each program's twin gained on the card; programs that nobody ran there yet are not in it."""
    gained: dict[str, float] = msgspec.json.decode(GAINS.read_bytes())["gains"]
    return gained


def factors(score: Score) -> dict[str, float]:
    """Promised gain over what the twin gained on the card, or its inverse where that is above 1; by program."""
    gained = recorded_gains()
    both = {o.program: (o.gain, gained[o.program]) for o in score.outcomes if o.gain and o.program in gained}
    return {name: round(max(said / seen, seen / said), 2) for name, (said, seen) in both.items()}


def recordings_in(folder: Path) -> dict[str, Path]:
    """The recordings of a folder by the file name of their program."""
    return {p.name.removesuffix(SUFFIX) + ".cu": p for p in sorted(folder.glob(f"*{SUFFIX}"))}


def _scored(
    tier: str, arch: str, programs: Sequence[Path], tuned: Sequence[Path], by_name: Mapping[str, FileReport]
) -> Score:
    return Score(
        tier,
        arch or load_gpu(None).arch,
        tuple(
            _outcome(p, by_name[p.name], by_name.get(twin_of(p).name)) for p in programs if p.name in by_name
        ),
        tuple(_alarm(p, by_name[p.name]) for p in tuned if p.name in by_name),
    )


def _outcome(path: Path, file: FileReport, twin: FileReport | None) -> Outcome:
    mark = mark_of(path)
    kernel = next(k for k in file.kernels if k.line > mark.above)
    listed = [f for f in file.findings if f.kernel == kernel.qualified_name]
    rank = next((n for n, f in enumerate(listed, 1) if f.slug == mark.slug), None)
    hit = listed[rank - 1] if rank is not None else None
    still = {f.slug for f in twin.findings} if twin is not None else set()
    return Outcome(
        program=path.stem,
        slug=mark.slug,
        kernel=kernel.qualified_name,
        rank=rank,
        lines_apart=abs(hit.line - mark.line) if hit is not None else None,
        bound=kernel.bottleneck.bound,
        expected_bound=mark.bound,
        gain=hit.gain.estimate if hit is not None and hit.gain is not None else None,
        found=tuple(f.slug for f in listed),
        twin=_loud(twin.findings) if twin is not None else (),
        twin_clean=mark.slug not in still if twin is not None else None,
    )


def _alarm(path: Path, file: FileReport) -> Alarm:
    loud = _loud(file.findings)
    quiet = tuple(f.slug for f in file.findings if f.severity in ("information", "hint"))
    return Alarm(path.stem, loud, quiet)


def _loud(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(f.slug for f in findings if f.severity in ("warning", "error"))


def _share(held: Sequence[bool]) -> float:
    return sum(held) / len(held) if held else 0.0


def shares(score: Score) -> dict[str, float]:
    """Every share of the examination by its name, 0 to 1; what was not examined is absent."""
    asked = {
        "top-1": score.share(within=1), "top-3": score.share(within=3), "line": score.line, "class": score.bound,
    }  # fmt: skip
    if any(o.twin_clean is not None for o in score.outcomes):
        asked["twins"] = score.twins
    if score.controls:
        asked["controls"] = score.silent
    return asked
