# SPDX-License-Identifier: Apache-2.0
"""The examination that every micro-profiling tool must pass, built in or from another distribution.

    from warplens_tools.testing import MicroToolConformance

    class TestMyTool(MicroToolConformance):
        tool = my_tool.MyTool
        samples = (Sample("bad.cu", BAD, finds=True), Sample("good.cu", GOOD, finds=False))

Samples are examined at the source tier; hand in `evidence` to examine a tool that needs a higher one. Needs
nothing but pytest.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from warplens_tools.analysis import tiers_present
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import load_gpu
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import (
    TIERS,
    BinaryEvidence,
    CompiledKernel,
    Instruction,
    KernelEvidence,
    Resources,
)
from warplens_tools.finding import SEVERITIES, Finding
from warplens_tools.kernel import KernelView
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import SourceText

#: Headings that a tool's page must have, in this order.
PAGE_PARTS = (
    "**What.**", "**Why it costs.**", "**Wrong**", "**Right**", "**Evidence.**", "**Threshold.**", "**References.**",
)  # fmt: skip
CLASSES = ("memory", "compute", "latency", "launch", "mixed", "unknown")
_SENTENCE = re.compile(r".*\w.*\.", re.DOTALL)
CONFIDENCES = ("high", "medium", "low")

#: Kernels that real files hold sooner or later. A tool may say something of them; it may not raise.
ODD_KERNELS: Mapping[str, str] = {
    "empty": "__global__ void k() {}",
    "declared only": "__global__ void k(float *a, int n);",
    "unfinished": "__global__ void k(float *a, int n) { for (int i = 0; i < n; ++i) { a[i] = ",
    "no body brace": "__global__ void k(float *a) a[0] = 1;",
    "unknown types": "__global__ void k(Foo<Bar> *a, T b) { a[threadIdx.x].c[b].d = a->e(b)[1]; }",
    "index of itself": "__global__ void k(int *a) { a[a[a[threadIdx.x]]] = a[a[0]]; int i = i; a[i] = 0; }",
    "division by zero": "__global__ void k(int *a) { a[threadIdx.x / 0] = a[threadIdx.x % 0] << 99; }",
    "negative index": "__global__ void k(float *a) { a[-1 - (int)threadIdx.x] = a[-threadIdx.x * 7]; }",
    "zero block": "__global__ void k(float *a) { a[threadIdx.x] = 0; }\nvoid f() { k<<<0, 0>>>(nullptr); }",
    "huge block": "__global__ void k(float *a) { a[threadIdx.x] = 0; }\nvoid f() { k<<<1, 1 << 30>>>(nullptr); }",
    "odd block": "__global__ void k(float *a) { a[threadIdx.y * 3 + threadIdx.x] = 0; }\nvoid f() "
    "{ k<<<dim3(1, 2, 3), dim3(3, 5, 7)>>>(nullptr); }",
    "while loop": "__global__ void k(float *a, int n) { int i = threadIdx.x; while (i < n) { a[i] *= 2; i += 32; } }",
    "goto": "__global__ void k(float *a) { int i = 0; again: a[i++] = 1; if (i < 9) goto again; }",
    "macros": "#define AT(x) a[x]\n#define LOOP(i) for (int i = 0; i < 4; ++i)\n"
    "__global__ void k(float *a) { LOOP(i) AT(i * 32 + threadIdx.x) = AT(AT(i)); }",
    "template": "template <typename T, int N> __global__ void k(T (&a)[N], T *b) "
    "{ extern __shared__ T s[]; s[threadIdx.x] = b[N]; a[threadIdx.x] = s[N]; }",
    "lambda": "__global__ void k(float *a) { auto f = [&](int i) { return a[i]; }; a[0] = f(threadIdx.x); }",
    "atomics": "__shared__ int z;\n__global__ void k(int *a, float *f) { atomicAdd(a + threadIdx.x % 0, 1); "
    "atomicCAS(&a[a[0]], 0, 1); atomicAdd(&f[0], 1.f); atomicAdd(); atomicMax(a, z); }",
    "assembly": '__global__ void k(int *a) { asm volatile("mov.u32 %0, %%laneid;" : "=r"(a[threadIdx.x])); }',
    "wide characters": '__global__ void k(float *größe) { /* ω → ∞ */ größe[threadIdx.x] = u8"é"[0]; }',
    "line ends": "__global__ void k(float *a)\r\n{\r\n\ta[threadIdx.x * 2] = 1;\r\n}\r\n",
    "struct of itself": "struct S { S *next; S s; int n[0]; };\n"
    "__global__ void k(S *a) { a[threadIdx.x].s.s.next = 0; }",
    "constant": "__constant__ float t[] = {1, 2};\n__constant__ int u[4][X];\n"
    "__global__ void k(float *a) { a[0] = t[(int)a[threadIdx.x]] + u[threadIdx.x][1]; }",
}  # fmt: skip


class Sample(msgspec.Struct, frozen=True):
    """A file to examine a tool on, and whether the tool is to find its fault in it."""

    name: str
    text: str
    finds: bool
    #: Evidence by kernel beyond the source; none for the source tier.
    evidence: Mapping[str, KernelEvidence] = {}


def views(
    text: str,
    *,
    path: str = "sample.cu",
    evidence: Mapping[str, KernelEvidence] | None = None,
    arch: str = "sm_90",
) -> Iterator[KernelView]:
    """What a tool gets to see of each kernel of a text."""
    source = SourceText(text)
    model = parse(source, path)
    gpu: Gpu = load_gpu(arch)
    for kernel in model.kernels:
        found = (evidence or {}).get(kernel.qualified_name, KernelEvidence())
        yield KernelView(kernel, model, source, gpu, found)


def findings(
    tool: type[MicroTool], text: str, evidence: Mapping[str, KernelEvidence] | None = None
) -> list[Finding]:
    """Everything the tool says of a text whose tiers it can use."""
    return [
        finding
        for view in views(text, evidence=evidence)
        if tiers_present(view.evidence) & set(tool.tiers)
        for finding in tool.run(view)
    ]


def silenced(tool: type[MicroTool]) -> type[MicroTool]:
    """The tool with nothing to say of code: what it tells of counters and measurements is left."""

    class Silenced(tool):  # type: ignore[valid-type, misc]
        def check(self) -> tuple[Finding, ...]:
            """Nothing."""
            return ()

    return Silenced


def odd_evidence(kernel: str) -> KernelEvidence:
    """A compiled kernel with next to nothing in it: no lines, unknown opcodes, a branch to itself."""
    odd = (
        Instruction(0, "WHATEVER", ("X",), ("R1",)),
        Instruction(16, "LDG", (), ()),
        Instruction(32, "BRA", (), (), target=32),
    )
    compiled = tuple(
        CompiledKernel(kernel, kernel, kernel, "sm_90", Resources(registers), instructions)
        for registers, instructions in ((0, ()), (255, odd))
    )
    binary = BinaryEvidence("sample.cu", "sm_90", "nvcc", (), compiled, disassembled=True)
    return KernelEvidence(compiled=compiled, binary=binary)


def faults_of(finding: Finding, tool: type[MicroTool], text: SourceText) -> list[str]:
    """What is wrong with a finding; empty for a sound one."""
    faults = []
    if (finding.code, finding.slug) != (tool.code, tool.slug):
        faults.append(f"it is signed {finding.code} {finding.slug}, the tool is {tool.code} {tool.slug}")
    span = finding.span
    if not (1 <= span.line <= span.end_line <= text.line_count) or text.slice(span) == "":
        faults.append(f"its span {span} is not in the file")
    said = {"message": finding.message, "guidance": finding.guidance}
    faults += [f"its {what} is no sentence" for what, words in said.items() if not _SENTENCE.fullmatch(words)]
    if finding.severity not in SEVERITIES or finding.confidence not in CONFIDENCES:
        faults.append("its severity or confidence is not one of the known")
    if not finding.evidence:
        faults.append("it rests on no evidence")
    faults += [
        f"evidence {e} names no origin or metric" for e in finding.evidence if not (e.origin and e.metric)
    ]
    faults += [f"evidence of unknown tier {e.tier}" for e in finding.evidence if e.tier not in TIERS]
    gain = finding.gain
    if gain is not None and not 1.0 <= gain.low <= gain.estimate <= gain.high < float("inf"):
        faults.append(f"its gain {gain} is not ordered, finite and at least 1")
    for fix in finding.fixes:
        text.apply(list(fix.edits))
    return faults


class MicroToolConformance:
    """Subclass it in a test module with a `tool` and its `samples`; pytest runs every `test_` below."""

    tool: ClassVar[type[MicroTool]]
    samples: ClassVar[Sequence[Sample]] = ()

    def test_it_is_complete(self) -> None:
        """Code, slug, title, what not to do, tiers, classes."""
        assert re.fullmatch(r"[A-Z]{2,5}\d{3}", self.tool.code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.tool.slug)
        assert self.tool.title
        assert not self.tool.title.endswith(".")
        assert not self.tool.avoid or re.fullmatch(r"Do not .*\.", self.tool.avoid)
        assert self.tool.tiers
        assert set(self.tool.tiers) <= set(TIERS)
        assert self.tool.relevant
        assert set(self.tool.relevant) <= set(CLASSES)

    def test_its_module_is_its_page(self) -> None:
        """The slug, then every part in order."""
        page = inspect.getdoc(inspect.getmodule(self.tool)) or ""
        assert page.splitlines()[:1] == [self.tool.slug]
        places = [page.find(part) for part in PAGE_PARTS]
        assert -1 not in places, PAGE_PARTS[places.index(-1)]
        assert places == sorted(places)

    def test_it_never_raises(self) -> None:
        """On text that real editors hold, with and without a binary."""
        for name, text in ODD_KERNELS.items():
            for view in views(text):
                for evidence in (KernelEvidence(), odd_evidence(view.kernel.qualified_name)):
                    for finding in self.tool(msgspec.structs.replace(view, evidence=evidence)).check():
                        assert not faults_of(finding, self.tool, view.text), name

    def test_it_is_silent_without_its_evidence(self) -> None:
        """Without any of its tiers it yields nothing."""
        if "source" in self.tool.tiers:
            return
        for sample in self.samples:
            assert [f for view in views(sample.text) for f in self.tool(view).check()] == []

    def test_it_finds_what_it_is_for(self) -> None:
        """Each sample, found or silent as it says; what is found is sound, and the same each time."""
        for sample in self.samples:
            found = findings(self.tool, sample.text, sample.evidence)
            wanted = "something" if sample.finds else "nothing"
            assert bool(found) == sample.finds, f"{sample.name}: {wanted} is to be found in\n{sample.text}"
            assert found == findings(self.tool, sample.text, sample.evidence)
            for finding in found:
                assert not faults_of(finding, self.tool, SourceText(sample.text)), sample.name
