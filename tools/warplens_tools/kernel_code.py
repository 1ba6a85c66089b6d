# SPDX-License-Identifier: Apache-2.0
"""What the text, the launches and the compiled code say of one kernel: read once, kept with it."""

from __future__ import annotations

import itertools
import re
from typing import Self

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.occupancy import Occupancy
from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.facts.launch_arguments import argument_values
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.cuda.values.constants import Dim3, layouts_of
from warplens_tools.cuda.values.forms import Form
from warplens_tools.evidence import CompiledKernel, KernelEvidence, Observation, Tier
from warplens_tools.launches import Extents, Geometry, Launches
from warplens_tools.lazily import cached_property
from warplens_tools.sass.banks import warp_lanes
from warplens_tools.sass.listing import Sass
from warplens_tools.text import SourceText, Span

#: Nanoseconds from which a measured kernel is long enough for its shape to matter more than its launch.
LONG_NS = 20_000.0
#: Accesses of one kernel that are judged: more is generated code, and takes seconds.
MAX_ACCESSES = 4_000
#: A template's argument as a demangled name or a launch has it: "4", "(int)4", "4u".
_INTEGER = re.compile(r"(?:\([\w\s]+\)\s*)?(-?\d+)[uUlL]*")
_LOOPS = "[(for_statement) (while_statement) (do_statement) (for_range_loop)] @loop"


class KernelCode(msgspec.Struct, frozen=True, dict=True, eq=False):
    """One kernel, its file, the GPU it is judged against, the evidence present, and what is read out of these."""

    kernel: Kernel
    model: SourceModel
    text: SourceText
    gpu: Gpu
    evidence: KernelEvidence

    @cached_property
    def tree(self) -> SourceTree:
        """The parsed file."""
        return parse_tree(self.text)

    @cached_property
    def launches(self) -> Launches:
        """Where and how the file launches the kernel."""
        return Launches(self.kernel, self.model)

    @property
    def sites(self) -> tuple[LaunchSite, ...]:
        """The kernel's launch sites in its own file, whose places are the file's."""
        return tuple(site for site in self.launches.sites if not site.path)

    @property
    def block(self) -> Extents | None:
        """Block extents (x, y, z) that all launches of the file agree on."""
        return self.launches.block

    @property
    def dim3(self) -> Dim3:
        """As `block`, with None for each extent that is not known."""
        return self.launches.extents

    @cached_property
    def shape(self) -> Geometry | None:
        """The launch that the kernel is judged by; see `Launches.judged`."""
        return self.launches.judged(self.evidence)

    @cached_property
    def usual_shape(self) -> Geometry | None:
        """As `shape`; where that is not known, the launch of a run of the program without arguments."""
        return self.shape or self.launches.untold

    @cached_property
    def accesses(self) -> tuple[ArrayAccess, ...]:
        """The array accesses in the kernel's own text, in text order: at most `MAX_ACCESSES`."""
        return self._every_access[:MAX_ACCESSES]

    @property
    def accesses_left_out(self) -> int:
        """How many accesses are not judged, for there are too many."""
        return max(0, len(self._every_access) - MAX_ACCESSES)

    @cached_property
    def _every_access(self) -> tuple[ArrayAccess, ...]:
        return accesses(self.tree, self.kernel, self.dim3)

    @cached_property
    def global_accesses(self) -> tuple[ArrayAccess, ...]:
        """Those of global memory."""
        return tuple(a for a in self.accesses if a.space == "global")

    @cached_property
    def arguments(self) -> dict[str, int]:
        """What the launches pass for integer parameters, by name, where it follows from constants."""
        return argument_values(self.tree, self.model, self.kernel)

    @cached_property
    def usual_arguments(self) -> dict[str, int]:
        """As `arguments`, and what a run of the program without arguments passes."""
        return argument_values(self.tree, self.model, self.kernel, untold=True)

    def lane_values(self, index: Form, warp: int = 0) -> list[int] | None:
        """What an index is for the lanes of a warp of the block; None where that is not known.

        What all lanes share and the file does not tell counts as 64.
        """
        size = self.gpu.limits.warp_size
        x, y, _ = extents = self.block or self.launches.assumed_lanes(size)
        lanes = warp_lanes(extents, size)
        if warp:
            lanes = [(n % x, n // x % y, n // (x * y)) for n in range(warp * size, (warp + 1) * size)]
        shared = (s.name for s in index.symbols if s.kind not in ("thread", "derived"))
        same = {name: self.arguments.get(name, 64) for name in shared}
        axes = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
        found = [index.evaluate({**same, **dict(zip(axes, lane, strict=True))}) for lane in lanes]
        known = [at for at in found if at is not None]
        return known if len(known) == len(found) else None

    @cached_property
    def template_arguments(self) -> dict[str, str]:
        """Argument of every template parameter, as the compiled instance or else the only launch has it.

        Empty where neither says: arguments that a launch leaves to deduction are known once the kernel is compiled.
        """
        names = self.kernel.template_parameters
        if not names:
            return {}
        if self.compiled is not None:
            return self.arguments_of(self.compiled)
        launched = {site.template_arguments for site in self.launches.sites}
        given = launched.pop() if len(launched) == 1 else ()
        # A class template's parameters come first, and its arguments stand with the class.
        return dict(zip(names[-len(given) :], given, strict=False)) if given else {}

    @property
    def template_numbers(self) -> dict[str, int]:
        """The integers among `template_arguments`."""
        found = ((name, _INTEGER.fullmatch(given.strip())) for name, given in self.template_arguments.items())
        return {name: int(number[1]) for name, number in found if number is not None}

    def arguments_of(self, compiled: CompiledKernel) -> dict[str, str]:
        """Argument of every template parameter in an instantiation, as its demangled name has it."""
        names, given = self.kernel.template_parameters, _arguments(compiled.demangled, self.kernel.name)
        return dict(zip(names[-len(given) :], given, strict=False)) if given else {}

    def element_bytes(self, name: str) -> int | None:
        """Bytes of a type by its name, a template parameter taken as its argument, and a name that the text does not
        explain as what the compiler made of it; None where not known."""
        layouts = layouts_of(self.tree)
        known = layouts.bytes(self.template_arguments.get(name, name))
        return known if known is not None else layouts.bytes(self._compiled_types.get(name, ""))

    @cached_property
    def _compiled_types(self) -> dict[str, str]:
        """What the types that the parameters are written with are in the compiled instance, by name."""
        given = _passed(self.compiled.demangled) if self.compiled is not None else ()
        listed = self.kernel.parameters
        if len(given) != len(listed):
            return {}
        return {p.element_type: _plain(t) for p, t in zip(listed, given, strict=True) if t.count("*") <= 1}

    @cached_property
    def body(self) -> str:
        """The text of the kernel's body."""
        return self.text.slice(self.kernel.body)

    @property
    def is_thread_bound(self) -> bool:
        """Whether threads have elements of their own, so that a larger grid alone would find no work: no `gridDim`."""
        return "gridDim" not in self.body

    @cached_property
    def runs_long(self) -> bool:
        """Whether there is work whose distribution matters: a measured duration, else a loop in the kernel."""
        seen = self.evidence.timing
        if seen is not None:
            return seen.median_ns >= LONG_NS
        if self.sass:
            return any(self.sass.flow.depths)
        function = self.tree.function_at(*self.text.offsets(self.kernel.body))
        return function is not None and bool(self.tree.captures(_LOOPS, function))

    @property
    def compiled(self) -> CompiledKernel | None:
        """The instantiation that is looked at: that which spills most, then takes most registers."""
        return self.evidence.worst

    @cached_property
    def sass(self) -> Sass:
        """Its SASS; empty, and false, where nothing was disassembled."""
        return Sass(self.compiled, self.kernel, self.model.path, self.gpu, self.block)

    def instance(self, compiled: CompiledKernel) -> Self:
        """The same kernel with another of its instantiations to look at."""
        if compiled is self.compiled:
            return self
        return msgspec.structs.replace(
            self, evidence=msgspec.structs.replace(self.evidence, compiled=(compiled,))
        )

    def sass_of(self, compiled: CompiledKernel | None) -> Sass:
        """The SASS of any instantiation."""
        if compiled is self.compiled:
            return self.sass
        return Sass(compiled, self.kernel, self.model.path, self.gpu, self.block)

    @cached_property
    def threads(self) -> int | None:
        """Threads per block: the largest launched, else what the launch bounds allow."""
        return self.launches.threads(self.compiled)

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """Theoretical occupancy; None where the launch is not known or nothing was compiled."""
        return None if self.compiled is None else self.launches.occupancy(self.compiled, self.gpu)

    def origin(self, tier: Tier) -> str:
        """The tool that gave the evidence of a tier; "" where there is none."""
        if tier == "source":
            return "tree-sitter"
        found = {
            "binary": self.evidence.binary, "timing": self.evidence.timing,
            "counters": self.evidence.counters, "timeline": self.evidence.timeline,
        }[tier]  # fmt: skip
        return found.origin if found is not None else ""

    def observe(
        self,
        metric: str,
        value: float | str,
        unit: str = "",
        threshold: float | str | None = None,
        source: str = "",
        *,
        tier: Tier = "binary",
    ) -> Observation:
        """Something seen of the kernel, signed with the tool that gave the tier's evidence."""
        return Observation(tier, self.origin(tier), metric, value, unit, threshold, source)

    def said(self, span: Span) -> str:
        """The text of a place in the file."""
        return self.text.slice(span)

    def line_span(self, line: int | None) -> Span:
        """The text of a 1-based line without its indentation; the kernel's name where there is no line.

        A line without a word, such as that of a closing brace, stands for the kernel: nobody would act there.
        """
        text = self.text.line_text(line) if line is not None else ""
        if line is None or not any(char.isalnum() for char in text):
            return self.kernel.name_span
        start = len(text) - len(text.lstrip()) + 1
        return Span(line, start, line, max(len(text.rstrip()) + 1, start + 1))


def _plain(written: str) -> str:
    """A type without `const`, references and pointers: "double" of "double const*"."""
    return " ".join(re.sub(r"\bconst\b|\bvolatile\b|__restrict(?:__)?|[*&]", " ", written).split())


def _passed(demangled: str) -> tuple[str, ...]:
    """("float*", "int") of "void ns::scale<float>(float*, int)"; none where no list is told, as of extern "C"."""
    if not demangled.endswith(")"):
        return ()
    depth, end = 0, len(demangled) - 1
    for start in range(end, -1, -1):
        depth += (demangled[start] == ")") - (demangled[start] == "(")
        if not depth:
            return tuple(split_arguments(demangled[start + 1 : end]))
    return ()


def _arguments(demangled: str, name: str) -> tuple[str, ...]:
    """("float", "4") of "void ns::scale<float, 4>(float*)"."""
    _, found, rest = demangled.partition(f"{name}<")
    if not found:
        return ()
    depth, cuts = 1, [-1]
    for at, char in enumerate(rest):
        depth += (char in "<([") - (char in ">)]")
        if depth == 0 or (depth == 1 and char == ","):
            cuts.append(at)
        if depth == 0:
            break
    return tuple(rest[low + 1 : high].strip() for low, high in itertools.pairwise(cuts))
