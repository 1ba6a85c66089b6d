# SPDX-License-Identifier: Apache-2.0
"""What one run of the probe shall do, in the form that `job.h` reads."""

from __future__ import annotations

from typing import Literal

import msgspec

from warplens_tools.errors import InputError

Element = Literal["other", "f64", "f32", "f16", "bf16", "integer"]
Extent = tuple[int, int, int]


#: Of so many integers by value one is drawn anew (`numbers`), in one of four ways by how often its target holds
#: that many.
WAYS_OF = 16
#: From this target on they are, one after the other, each that the kernel asks for.
ASKS_FROM = 64
#: And from this one on floats are (`met`, `ranks`).
SENTINELS_FROM = 16


class Shape(msgspec.Struct, frozen=True):
    """A launch's geometry. `shared` is the dynamic shared memory in bytes."""

    grid: Extent
    block: Extent
    shared: int


class JobField(msgspec.Struct, frozen=True):
    """A member of a structure: its offset in bytes, what it is, and whether it is a pointer to that."""

    offset: int
    element: Element
    width: int = 0
    pointer: bool = False


class JobParameter(msgspec.Struct, frozen=True):
    """What a pointer parameter leads to, or what is passed by value."""

    index: int
    element: Element
    constant: bool = False
    #: It leads to pointers to such elements.
    table: bool = False
    #: It is no pointer but such a number itself.
    scalar: bool = False
    #: A pointer that the source asks for whether it is null.
    optional: bool = False
    #: Bytes of an integer element; 0 where the type does not tell.
    width: int = 0
    #: Of a structure that the source defines: its bytes and members.
    size: int = 0
    fields: tuple[JobField, ...] = ()
    #: Bytes of an element of several numbers, which belong together; 0 for single numbers.
    whole: int = 0
    #: What a launch leaves there only its own blocks read.
    scratch: bool = False
    #: The largest number passed by value for which the kernel has room in its own arrays; 0 where nothing is known.
    most: int = 0


#: Of integers: their buffers' values `redrawn` or `permuted`, some 0 or 1 (`flags`), nearly all one value (`skewed`),
#: all zero (`vacant`), each several times where the next ones were (`repeated`), below the smallest buffer's length
#: (`ranged`), all that the type holds (`full`); those that the kernel compares with (`asked`) among them and by value,
#: or -1 in a buffer or by value (`below`). Of floats: mixed `signs`, `zeros` filled, runs of zeros (`blanks`), one half
#: of a buffer (`halves`) or all of it zero (`naught`), far from zero (`shifted`), `spikes`, NaN (`specials`) or
#: `infinities`, or four values alone (`ties`). Passed by value: floats moved (`scalars`), zero (`nulls`) or far from
#: what they were (`wide`); integers one `less` or `halved`, 1 where they are 0 (`raised`), small ones up to four times
#: (`more`), or a hundred times as large (`many`); one length a multiple, another one a part of what it was
#: (`reshaped`); optional pointers null where they are not, and else not (`toggled`). `moved` is what `scale` and
#: `noise` say.
#: Integers by value drawn anew, larger ones among them (`numbers`); a smaller grid (`fewer`). Floats: runs of NaN
#: (`voids`), other signs and sizes in each buffer (`mingled`). What is passed by value among the buffers' own (`met`,
#: in runs: `ranks`), or, from target 16 on, floats that the kernel compares with; small integers one
#: larger (`plus`); half of the results there already (`standing`). 64-bit integers by value that are too large for any
#: length, larger by multiples of 2^32 (`high`). An input that lies where a result goes to (`aliased`). Columns of
#: zeros, of matrices as wide as an integer by value says (`striped`); integers of other signs (`turned`), or that rise
#: by little where they ascend (`stepped`); floats so large or small that squares overflow or vanish (`vast`); a
#: length less than a warp (`few`), a float by value that is infinite (`endless`); numbers by value among indices
#: (`reached`); a few small integers of a buffer's first half many times as large (`longer`). 64-bit integers that
#: share their lower halves with others (`upper`); a few places that hold others of their buffer's (`nicked`); floats
#: each several times but for their last bits (`near`),
#: or between two whole numbers (`halfway`). By value: one float a small whole number or hardly another
#: (`settled`), numbers by which nothing is led of any size (`loose`), a bit turned that the kernel asks for (`masked`).
#: Tables of pointers to what is only read, whose entries lead a little further (`tables`). Keys whose bit fields are
#: alike, or that are in order, by `scale` one of six ways, and of text letters of the other case, or neighbours in each
#: other's place (`fields`); floats less one of them (`centred`); numbers with bits that the kernel masks off before
#: they lead it anywhere (`tagged`). Integers at the ends of what their type holds (`brim`), by `scale`: limbs of zeros,
#: ones and all ones, bytes alone at their largest, all at their largest, at their lowest, at their largest with a sign,
#: and limbs again, of which others are each other's complements. Links from each place to one before or behind it
#: (`linked`), by `scale`: the last one, some, any that follow. Lengths by value may be less by `scale`, and two small
#: numbers by value change places or be the same (`against`). Integers each of which is drawn between nothing and what
#: it was (`lowered`); runs of floats half or all of which are infinite, one way by the sign of `scale` (`endmost`); a
#: length by value further than twice what is asked for (`past`).
VariantKind = Literal[
    "moved",
    "redrawn",
    "permuted",
    "signs",
    "zeros",
    "spikes",
    "scalars",
    "blanks",
    "specials",
    "flags",
    "skewed",
    "ranged",
    "full",
    "less",
    "halved",
    "halves",
    "naught",
    "vacant",
    "repeated",
    "nulls",
    "raised",
    "shifted",
    "more",
    "wide",
    "toggled",
    "asked",
    "below",
    "infinities",
    "ties",
    "many",
    "reshaped",
    "numbers",
    "fewer",
    "voids",
    "mingled",
    "plus",
    "met",
    "ranks",
    "standing",
    "high",
    "aliased",
    "striped",
    "turned",
    "stepped",
    "vast",
    "few",
    "endless",
    "longer",
    "reached",
    "upper",
    "nicked",
    "near",
    "halfway",
    "settled",
    "loose",
    "masked",
    "tables",
    "fields",
    "centred",
    "tagged",
    "brim",
    "linked",
    "against",
    "none",
    "minus",
    "lowered",
    "endmost",
    "past",
]


class Variant(msgspec.Struct, frozen=True):
    """A set of inputs: every floating-point input x becomes x · scale · (1 + noise · r), r in [-1, 1].

    With a scale of 0 it keeps its size and gets low bits that a lower precision would lose; with noise too, it
    keeps only the bits that every precision holds.
    """

    name: str
    scale: float = 1.0
    noise: float = 0.0
    kind: VariantKind = "moved"
    #: Which buffer of integers, or which integer passed by value; -1 for all.
    target: int = -1
    #: What is changed with it: of buffers, floats by value or pointers, not integers by value.
    beside: tuple[Variant, ...] = ()


#: What the probe says of a candidate `by_rule` where the baseline's grid does not follow its own rule.
UNTOLD_GRID = "the launch does not show by what rule its grid is made"


class JobVariable(msgspec.Struct, frozen=True):
    """A variable of a candidate's module; `live` is its name in the running program, "" for a new one."""

    name: str
    live: str = ""


class JobCandidate(msgspec.Struct, frozen=True):
    """One compiled candidate. Geometry None means the baseline's."""

    id: str
    cubin: str
    entry: str
    grid: Extent | None = None
    block: Extent | None = None
    shared: int | None = None
    variables: tuple[JobVariable, ...] = ()
    #: Where a whole program is accompanied: the mangled name of the kernel that it stands for, in the running
    #: program, how many launches of it are expected, and its pointer parameters.
    kernel: str = ""
    launches: int = 0
    parameters: tuple[JobParameter, ...] = ()
    #: Its geometry by the baseline's; () for the same rule at every shape.
    geometries: tuple[tuple[Shape, Shape], ...] = ()
    #: Its grid by the integers that its host code passes, see `grid_rule`; () where that is not known.
    rule: tuple[str, ...] = ()
    #: That rule gives its grid, of what the program passes.
    by_rule: bool = False
    #: Integers and floats that its code compares with and the kernel's does not: where it may go another way.
    constants: tuple[int, ...] = ()
    sentinels: tuple[float, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """One run: a survey of all kernels, a trace of all activities, a visit to one launch, or a whole run with
    candidates in their kernels' places."""

    mode: Literal["survey", "trace", "visit", "accompany"]
    #: File that the records are appended to.
    result: str
    #: Process whose end ends the program; 0 for none.
    parent: int = 0
    #: A file that the program waits for before it gives the card work or takes its memory; "" if it may at once.
    gate: str = ""
    #: Cubin of the probe's own kernels.
    helpers: str = ""
    #: Mangled name as the running program knows it.
    kernel: str = ""
    #: Another kernel of the same parameters that stands for it: its name, and the cubin that holds it.
    instead: tuple[str, str] = ("", "")
    #: Of pointers of its, which floats lie there: the probe makes its own of them.
    converted: tuple[tuple[int, Element], ...] = ()
    shape: Shape | None = None
    #: Which launch of that shape, from 0.
    launch: int = 0
    seed: int = 1
    parameters: tuple[JobParameter, ...] = ()
    #: Its grid by the integers that host code passes, see `grid_rule`; () where that is not known.
    rule: tuple[str, ...] = ()
    #: Parameters that the kernel's code never reads, by index.
    unread: tuple[int, ...] = ()
    #: Pointers among them behind which no number lies that leads anywhere or decides anything.
    free: tuple[int, ...] = ()
    #: Pointers behind which loaded numbers lead to what is read.
    gathered: tuple[int, ...] = ()
    #: Whether its code asks what is NaN: what it makes of that is meant.
    tells_nan: bool = False
    #: Whether doubles come of floats that it has computed, and have no more than their precision.
    widened: bool = False
    #: Variables of the running program's module.
    variables: tuple[str, ...] = ()
    #: What they hold, of those where that is known.
    held: dict[str, JobParameter] = {}
    variants: tuple[Variant, ...] = ()
    #: The same of the launch on copies of its memory that have room for more; () for no such copies.
    rooms: tuple[Variant, ...] = ()
    #: Parameters of integers by which nothing is led, and bits that are asked for: parameter and bit.
    loose: tuple[int, ...] = ()
    masks: tuple[tuple[int, int], ...] = ()
    #: Parameters that the kernel asks whether they are below zero, or some number there.
    below: tuple[int, ...] = ()
    #: By pointer, bits that it masks off of what lies there.
    tags: tuple[tuple[int, int], ...] = ()
    #: Integers that the kernel compares with.
    constants: tuple[int, ...] = ()
    #: And floats.
    sentinels: tuple[float, ...] = ()
    candidates: tuple[JobCandidate, ...] = ()
    #: The kernel's twin that marks what of it ran, and the variable that holds the marks; None for no such.
    twin: JobCandidate | None = None
    #: The one candidate's, which is asked where the kernel's is; None for no such.
    own_twin: JobCandidate | None = None
    marks: str = ""
    options: dict[str, float] = {}


def encode_job(job: Job) -> str:
    """The job's text.

    Raises:
        InputError: a name or path holds a line break.
    """
    lines = [f"mode {job.mode}", f"result {job.result}", f"parent {job.parent}", f"seed {job.seed}"]
    if job.gate:
        lines.append(f"gate {job.gate}")
    if job.helpers:
        lines.append(f"helpers {job.helpers}")
    if job.kernel:
        lines.append(f"kernel {job.kernel}")
    if job.instead[0]:
        lines.append(f"instead {job.instead[0]} {job.instead[1]}")
    lines += [f"converted {index} {element}" for index, element in job.converted]
    if job.shape is not None:
        lines.append(f"shape {_shape(job.shape)}")
    lines.append(f"launch {job.launch}")
    lines += [f"parameter {_parameter(p)}" for p in job.parameters]
    lines += [f"rule {axis} {words}" for axis, words in enumerate(job.rule)]
    lines += [f"unread {index}" for index in job.unread]
    lines += [f"free {index}" for index in job.free]
    lines += [f"gathered {index}" for index in job.gathered]
    lines += [f"loose {index}" for index in job.loose]
    lines += [f"below {index}" for index in job.below]
    lines += [f"tag {index} {bits}" for index, bits in job.tags]
    lines += [f"mask {index} {bit}" for index, bit in job.masks]
    lines += ["widened"] if job.widened else []
    lines += ["tells_nan"] if job.tells_nan else []
    lines += [f"global {name}" for name in job.variables]
    lines += [f"holds {name} {_parameter(p)}" for name, p in job.held.items()]
    for word, variants in (("variant", job.variants), ("room", job.rooms)):
        for variant in variants:
            lines += [f"{word} {_variant(variant)}", *(f"beside {_variant(v)}" for v in variant.beside)]
    lines += [f"constant {value}" for value in job.constants]
    lines += [f"sentinel {value!r}" for value in job.sentinels]
    lines += [f"option {name} {float(value)!r}" for name, value in job.options.items()]
    for candidate in job.candidates:
        lines += _candidate(candidate)
    if job.twin is not None:
        lines += [*_candidate(job.twin), f"twin {job.marks}"]
        lines += [*_candidate(job.own_twin), "own_twin"] if job.own_twin is not None else []
    if any("\n" in line or "\r" in line for line in lines):
        raise InputError("a path or kernel name holds a line break, which the probe cannot take")
    return "\n".join(lines) + "\n"


def _candidate(candidate: JobCandidate) -> list[str]:
    lines = [f"candidate {candidate.id}", f"cubin {candidate.cubin}", f"entry {candidate.entry}"]
    if candidate.grid is not None:
        lines.append(f"grid {_words(*candidate.grid)}")
    if candidate.block is not None:
        lines.append(f"block {_words(*candidate.block)}")
    if candidate.shared is not None:
        lines.append(f"shared {candidate.shared}")
    if candidate.kernel:
        lines.append(f"stands {candidate.launches} {candidate.kernel}")
    lines += [f"pointer {_parameter(p)}" for p in candidate.parameters]
    lines += [f"blocks {axis} {words}" for axis, words in enumerate(candidate.rule)]
    lines += ["by_rule"] if candidate.by_rule else []
    lines += [f"geometry {_shape(old)} {_shape(new)}" for old, new in candidate.geometries]
    return lines + [f"variable {v.name} {v.live or '-'}" for v in candidate.variables]


def _variant(v: Variant) -> str:
    return f"{v.kind} {v.scale!r} {v.noise!r} {v.target} {v.name}"


def _parameter(p: JobParameter) -> str:
    words = [str(p.index), p.element, "const" if p.constant else "mutable"]
    words += ["table"] if p.table else []
    words += ["scalar"] if p.scalar else []
    words += ["optional"] if p.optional else []
    words += ["scratch"] if p.scratch else []
    words += ["most", str(p.most)] if p.most else []
    words += ["wide", str(p.width)] if p.width else []
    words += ["whole", str(p.whole)] if p.whole else []
    words += ["structure", str(p.size), str(len(p.fields))] if p.fields else []
    for field in p.fields:
        words += [str(field.offset), field.element, str(field.width), str(int(field.pointer))]
    return " ".join(words)


def _shape(shape: Shape) -> str:
    return _words(*shape.grid, *shape.block, shape.shared)


def _words(*values: int) -> str:
    return " ".join(map(str, values))
