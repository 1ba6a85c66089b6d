# SPDX-License-Identifier: Apache-2.0
"""What a finding may promise, and how loudly it may be said: one place for all tools.

A tool says what its cause costs by its own model. What holds for every cause is settled here: no launch gains its
own start-up back, a gain has a range as narrow as the facts behind it, confidence is *high* only where those facts
were seen, and a warning is what is worth one in the program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.cuda.facts.copies_around import copies_around
from warplens_tools.cuda.facts.counted_nests import counted_nests
from warplens_tools.cuda.facts.data_branches import data_branches, data_guards
from warplens_tools.cuda.facts.matches import matched_sides
from warplens_tools.cuda.facts.prints import prints
from warplens_tools.cuda.facts.unsettled import unsettled_macro
from warplens_tools.earned import SURE, UNLAUNCHED, WARNS, earned
from warplens_tools.finding import Confidence, Finding, Gain, RelatedSpan, Severity
from warplens_tools.kernel import KernelView
from warplens_tools.kernel_code import LONG_NS
from warplens_tools.text import SourceText, Span

#: Expected speedup, of the program where the kernel's share of it is known, from which a finding is a warning.
WARNED = 1.05
#: How far a gain may be from the expected one, as a factor: of the 36 planted programs of docs/benchmarks/planted.json
#: 33 gained on the card within the first of what was promised, and all within the second.
SPREAD: dict[Confidence, float] = {"high": 1.5, "medium": 2.0}
#: As `WARNED`, where nothing was measured: less than the bounded model is off by is hardly told from nothing. Of 94
#: warnings that readers labelled and that promised less, 21 were right, of 232 that promised more 96
#: (tests/wild/labels).
WARNED_UNMEASURED = SPREAD["high"]
#: The factor that is promised at most, as what is expected, where the block was not seen.
SURE_OF = 4.0
#: What a larger promise is drawn to (their geometric mean) where the block was seen and not how many there are: of 36
#: warnings that promised 8 and more readers called 10 right (tests/wild/labels).
SURE_OF_FEW = 8.0
#: Warps of a launch up to which it is small however long it lasts: two schedulers' of the card's hundreds.
LONE_WARPS = 2
#: One of so many SMs that has a block makes a small launch.
SMALL = 4
#: Bytes of an array of records of kilobytes each; such records are cells and tasks, of which there are few.
LARGEST = 2**27
_BLOCK, _GRID = "the block size", "the grid size"
#: The registers that count cycles and nanoseconds, as SASS reads them.
_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MEASURED = ("timing", "counters", "timeline")


def settle(view: KernelView, finding: Finding, *, of_program: bool, of_launch: bool = False) -> Finding:
    """The finding with a gain that can be had, the confidence that its facts bear, and the severity of both.

    `of_program` says that the gain is not the kernel's but of the program around its launches, `of_launch` that it is
    about how many blocks and threads these have.
    """
    seen = () if _is_measured(finding) else missing_facts(view, finding)
    missing = tuple(dict.fromkeys((*finding.missing, *seen)))
    sure = _sure(view, finding, missing)
    gain = finding.gain
    nothing = _is_matched(view, finding.span.line) or (
        gain is not None and not of_launch and (is_never_launched(view) or _is_brief_at_any_size(view))
    )
    if not (of_program or _is_measured(finding)) and nothing:
        quiet = "information" if finding.severity == "warning" else finding.severity
        return msgspec.structs.replace(finding, gain=None, confidence=sure, missing=missing, severity=quiet)
    if gain is not None:
        gain = _ranged(gain if of_program else within_launch(view, gain, counted=of_launch), sure)
        gain = _as_known(gain, missing)
    told = msgspec.structs.replace(finding, gain=gain, confidence=sure, missing=missing)
    severity = _severity(view, told, of_program=of_program)
    small = (
        severity == "warning" and told.gain is not None and not (of_program or of_launch) and _is_small(view)
    )
    return msgspec.structs.replace(told, severity="information" if small else severity)


def _sure(view: KernelView, finding: Finding, missing: Sequence[str]) -> Confidence:
    """As its tool has it; *high* only of code that was compiled or timed and of which every fact was seen, whether it
    has a gain or not, of a kind that is seldom wrong."""
    if finding.confidence != "high" or _is_measured(finding):
        return finding.confidence
    if missing or not (view.sass or view.evidence.timing is not None):
        return "medium"
    unsure = view.sass and (unseen_facts(view, finding.span.line) or earned(finding) < SURE)
    return "medium" if unsure else "high"


def _is_measured(finding: Finding) -> bool:
    return any(seen.tier in _MEASURED for seen in finding.evidence)


def missing_facts(view: KernelView, finding: Finding) -> tuple[str, ...]:
    """What the gain rests on and was not seen; none where there is no gain, or nothing was disassembled."""
    return () if finding.gain is None or not view.sass else unseen_facts(view, finding.span.line)


def unseen_facts(view: KernelView, line: int) -> tuple[str, ...]:
    """What was not seen of a kernel's launches, and of how often a line of it is executed."""
    found = []
    if not view.launches.sites:
        found.append(UNLAUNCHED)
    macro = unsettled_macro(view.text, view.kernel, line)
    if macro:
        found.append(f"whether {macro} is defined")
    if view.usual_shape is None:
        found.append(_GRID)
    if view.threads is None:
        found.append(_BLOCK)
    found += _unknown_weight(view, line)
    return tuple(found)


def _unknown_weight(view: KernelView, line: int) -> list[str]:
    """Why it is not known how often a line of the kernel is executed, against the rest of it."""
    depths = [d for n, d in zip(view.sass.lines, view.sass.flow.depths, strict=True) if n == line]
    loops = {loop.span: loop for access in view.accesses for loop in access.loops}
    found = []
    unknown = not loops or any(x.trips is None for x in loops.values())
    deeper = bool(depths) and max(depths) < max(view.sass.flow.depths) and unknown
    if deeper or (depths and _is_beside_counted(view, line, max(depths))):
        found.append("the trip counts of the loops")
    sides = chain(sides_by_data(view), matched_sides(view.tree, view.kernel))
    taken = next((at for at, side in sides if side.contains_line(line)), None)
    if taken is not None:
        found.append(f"how often the branch of line {taken} is taken")
    elif _is_skipped(view, line):
        found.append("how often the values of the loop let it come here")
    elif _is_beside_loops(view, line):
        found.append("how often data let a thread come here")
    return found


def _is_beside_counted(view: KernelView, line: int, depth: int) -> bool:
    """Whether other loops, which run to what the kernel counts, may well be as long as those of a line."""
    nests = counted_nests(view.tree, view.kernel)
    return any(nest.depth >= depth and not nest.span.contains_line(line) for nest in nests)


def _is_matched(view: KernelView, line: int) -> bool:
    """Whether a line is for the thread whose key matches: what it costs is next to nothing."""
    return any(side.contains_line(line) for _, side in matched_sides(view.tree, view.kernel))


def _is_beside_loops(view: KernelView, line: int) -> bool:
    """Whether data decides if a thread comes to a line of global accesses, and the kernel has loops beside it, which
    those that do not come may have gone through too."""
    here = [a for a in view.global_accesses if a.span.line == line]
    if not here or not all(a.by_data for a in here):
        return False
    flow = view.sass.flow
    own = [
        loop.blocks for loop in flow.loops if line in {view.sass.lines[i] for i in flow.instructions_of(loop)}
    ]
    return any(not any(loop.blocks & blocks for blocks in own) for loop in flow.loops)


def _is_skipped(view: KernelView, line: int) -> bool:
    """Whether most of a line's work in loops stands where what an iteration computes decides that it comes."""
    sass, flow = view.sass, view.sass.flow
    own = [
        i
        for i, places in enumerate(zip(sass.lines, sass.written, strict=True))
        if line in places and flow.depths[i]
    ]
    return bool(own) and 2.0 * sass.weigh([i for i in own if i in sass.skipped_by_data]) > sass.weigh(own)


def sides_by_data(view: KernelView) -> Iterable[tuple[int, Span]]:
    """Line of the test and span of what data of each lane decides: sides of a branch, and what a test in a loop
    guards."""
    for branch in data_branches(view.tree, view.kernel):
        for side in (branch.then, *(span for span, _ in branch.cases)):
            yield branch.condition.line, side
    yield from data_guards(view.tree, view.kernel)


def within_launch(view: KernelView, gain: Gain, *, counted: bool = False) -> Gain:
    """The gain of a launch whose start-up no repair shortens.

    A measured duration is start-up and work before the repair. One by the model is what the work takes at least, so
    that the cause's own time comes on top of it, unless it is `counted`: the model takes blocks and threads as they
    are launched. However many there are, what loads waits for it once.
    """
    whole = view.launching.counted if counted else None
    duration = view.launching.duration if whole is None else whole
    if duration is None:
        return gain
    work = max(duration - SHORTEST_KERNEL_NS, 0.0)
    before_it = whole is not None or view.launching.duration_origin[0] != "binary"
    loads = bool(view.sass.where(lambda x: x.opcode == "LDG"))
    least = view.gpu.costs.memory_wait / view.gpu.clock_hz * 1e9 if loads else 0.0

    def bounded(ratio: float) -> float:
        before, after = (work, max(work / ratio, min(work, least))) if before_it else (work * ratio, work)
        return (SHORTEST_KERNEL_NS + before) / (SHORTEST_KERNEL_NS + after)

    return Gain.of(bounded(gain.estimate), bounded(gain.high))


def _ranged(gain: Gain, sure: Confidence) -> Gain:
    """Both ends no farther from what is expected than gains of this confidence were seen to be."""
    spread = SPREAD.get(sure)
    if spread is None:
        return gain
    low, high = gain.estimate / spread, gain.estimate * spread
    return Gain(gain.estimate, round(max(low, gain.low), 2), round(min(gain.high, high), 2))


def _as_known(gain: Gain, missing: Sequence[str]) -> Gain:
    """A large gain of a launch that was not seen: in a narrow block neighbouring lanes share sectors, and it leads with
    its low end; a small grid's data stay in the caches, and it leads with the mean of what is promised and of
    `SURE_OF_FEW`."""
    if _BLOCK in missing and gain.estimate > SURE_OF:
        estimate = max(gain.low, SURE_OF)
    elif _GRID in missing and _BLOCK not in missing and gain.estimate > SURE_OF_FEW:
        estimate = round(math.sqrt(gain.estimate * SURE_OF_FEW), 2)
    else:
        return gain
    low = max(estimate / SPREAD["medium"], 1.0)
    return Gain(estimate, round(min(gain.low, low), 2), gain.high)


def _severity(view: KernelView, finding: Finding, *, of_program: bool) -> Severity:
    """A warning from `WARNED` on where its kind has earned it; information below, or where its tool would not have it
    louder."""
    gain = finding.gain
    if gain is None or finding.severity not in ("warning", "information"):
        return finding.severity
    timing = view.evidence.timing
    share = timing.share if timing is not None and not of_program else None
    ratio = gain.estimate if share is None else 1.0 / (1.0 - share + share / gain.estimate)
    measured = _is_measured(finding)
    seen = measured or view.launching.duration_origin[0] in _MEASURED
    if ratio < (WARNED if seen else WARNED_UNMEASURED) or (not seen and _is_held_up(view)):
        return "information"
    if not measured and view.sass and earned(finding) < WARNS:
        return "information"
    if not seen and not of_program and _is_beside_copies(view):
        return "information"
    louder = finding.confidence == "high" and not measured
    return "warning" if louder else finding.severity


def _is_small(view: KernelView) -> bool:
    """Whether what the blocks could do faster is not what costs: by the model the largest launch takes less time than
    launching it, or it leaves most SMs idle and nothing says that it lasts. A warp or so, however long, is short of
    threads before all else."""
    shape, duration = view.shape, view.launching.duration
    usual = view.usual_shape
    if usual is not None and usual.tier == "source" and usual.warps <= LONE_WARPS:
        return True
    if shape is None or shape.tier != "source":
        return False
    few = shape.blocks * SMALL <= view.gpu.multiprocessors
    return duration < (LONG_NS if few else view.gpu.costs.launch_ns) if duration is not None else few


def is_never_launched(view: KernelView) -> bool:
    """Whether nothing can launch it: only its unit could, and names it nowhere else."""
    if view.launches.sites or not view.model.path.endswith(".cu"):
        return False
    kernel = view.kernel
    head = view.text.slice(
        msgspec.structs.replace(
            kernel.span, end_line=kernel.name_span.line, end_column=kernel.name_span.column
        )
    )
    inner = "(anonymous namespace)" in kernel.qualified_name or re.search(r"\bstatic\b", head)
    if not inner or kernel.macro:
        return False
    code = view.tree.masked.code.decode("ascii")
    return len(re.findall(rf"\b{re.escape(kernel.name)}\b", code)) == 1


def _is_brief_at_any_size(view: KernelView) -> bool:
    """Whether each thread goes once to a record of its own, so long that an array of `LARGEST` bytes holds few: by the
    model as many threads take less time than launching them."""
    if view.usual_shape is not None or not view.sass or view.sass.flow.loops:
        return False
    strides = [abs(p.stride or 0) for p in view.sass.patterns if p.space == "global"]
    if not max(strides, default=0):
        return False
    warps = LARGEST / max(strides) / view.gpu.limits.warp_size
    cycles = max(*view.sass.cycles.values(), *view.traffic.cycles().values())
    return warps * cycles / view.gpu.multiprocessors / view.gpu.clock_hz * 1e9 < view.gpu.costs.launch_ns


def _is_beside_copies(view: KernelView) -> bool:
    """Whether every launch stands between copies of its call, and no element is read twice: what crosses the link to
    the host, at a fiftieth of device memory's bandwidth, takes longer than whatever the kernel does with it."""
    sites = view.launches.sites
    around = (copies_around(view.tree, view.model, site) for site in sites if not site.path)
    return (
        bool(sites)
        and not any(site.path for site in sites)
        and all(into and out for into, out in around)
        and all(reread.times == 1 for reread in view.reuse.rereads)
    )


def _is_held_up(view: KernelView) -> bool:
    """Whether the kernel prints, or loops until a clock has run on: what it computes beside that takes no time."""
    if prints(view.tree, view.kernel):
        return True
    depths, code = view.sass.flow.depths, view.sass.instructions
    return any(
        depth and (x.opcode == "NANOSLEEP" or any(o.startswith(_CLOCKS) for o in x.operands))
        for depth, x in zip(depths, code, strict=True)
    )


def one_a_cause(ranked: Sequence[Finding], families: Mapping[str, str]) -> tuple[Finding, ...]:
    """Findings of one family of tools on one line once: the best, with the others' places. `families` is by slug."""
    kept: list[Finding] = []
    of_line: dict[tuple[str, int], int] = {}
    for finding in ranked:
        family = families.get(finding.slug, "")
        first = of_line.setdefault((family, finding.span.line), len(kept)) if family else len(kept)
        if first == len(kept):
            kept.append(finding)
        else:
            kept[first] = _joined(kept[first], RelatedSpan(finding.span, f"{family} here"))
    return tuple(kept)


def _joined(finding: Finding, place: RelatedSpan) -> Finding:
    if place.span == finding.span or any(place.span == r.span for r in finding.related):
        return finding
    return msgspec.structs.replace(finding, related=(*finding.related, place))


def one_a_place(groups: Sequence[tuple[Finding, ...]]) -> list[tuple[Finding, ...]]:
    """Findings of several kernels, given kernel by kernel: what is said of one line, of the host code or of a function
    that several call, is said once, of the kernel with the largest gain, with the others' places."""
    best: dict[tuple[str, int], Finding] = {}
    places: dict[tuple[str, int], list[RelatedSpan]] = {}
    for finding in (f for group in groups for f in group):
        at = (finding.code, finding.line)
        places.setdefault(at, []).extend(finding.related)
        if at not in best or _expected(finding) > _expected(best[at]):
            best[at] = finding
    return [
        tuple(_with(f, places[f.code, f.line]) for f in group if best[f.code, f.line] is f)
        for group in groups
    ]


def one_warning(groups: Sequence[tuple[Finding, ...]], text: SourceText) -> list[tuple[Finding, ...]]:
    """Findings of several kernels, given kernel by kernel: of what one line costs in variants of a kernel, its numbers
    aside, the largest gain is a warning, with the others' places. The others are information: one cure answers all."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in (f for group in groups for f in group):
        if finding.severity == "warning" and finding.gain is not None:
            written = "".join(text.line_text(finding.line).split())
            said = re.sub(rf"(?<!\w){re.escape(finding.kernel)}(?!\w)", "", finding.message)
            # What names no element is said of a line; barriers look alike everywhere.
            place = "" if "[" in said else finding.kernel if "__sync" in written else written
            key = finding.code, _NUMBER.sub("0", said), _NUMBER.sub("0", place)
            alike.setdefault(key, []).append(finding)
    told: dict[int, Finding] = {}
    for found in alike.values():
        best = max(found, key=_expected)
        others = [f for f in found if f is not best]
        told |= {id(f): msgspec.structs.replace(f, severity="information") for f in others}
        told[id(best)] = _with(best, [RelatedSpan(f.span, f"the same in {f.kernel}") for f in others])
    return [tuple(told.get(id(f), f) for f in group) for group in groups]


def _with(finding: Finding, places: Sequence[RelatedSpan]) -> Finding:
    """The finding with these places besides its own."""
    own = {place.span for place in finding.related}
    others = {place.span: place for place in places if place.span not in own}
    if not others:
        return finding
    return msgspec.structs.replace(finding, related=(*finding.related, *others.values()))


def _expected(finding: Finding) -> float:
    return finding.gain.estimate if finding.gain is not None else 1.0
