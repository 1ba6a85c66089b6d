# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.evidence import CompilerMessage, SourceLine
from warplens_tools.toolchain.messages import parse_messages
from warplens_tools.toolchain.ptx import line_map, max_threads

FRONT_END = """\
bad.cu(3): error: identifier "undefined_thing" is undefined
  __attribute__((global)) void a(int*p){ int q; *p = undefined_thing; }
                                                     ^

bad.cu(3): warning #177-D: variable "q" was declared but never referenced
  __attribute__((global)) void a(int*p){ int q; *p = undefined_thing; }
                                             ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

inc/dev (1).h(2): error: expression must have class type but it has type "float"
  return x.nope();
           ^
          detected during instantiation of "T twice(T) [with T=float]" at line 4 of bad.cu

2 errors detected in the compilation of "bad.cu".
"""
PTXAS = """\
ptxas info    : (C7519) warpgroup.arrive is injected in around line 9 by compiler in function '_Z1gPf'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized in the function '_Z1gPf'
ptxas warning : For profile sm_90a adjusting per thread register count of 16 to lower bound of 24
ptxas /tmp/k.ptx, line 5; error   : Arguments mismatch for instruction 'add'
ptxas info    : 0 bytes gmem
ptxas info    : Used 30 registers, used 0 barriers
ptxas info    : Compile time = 5.969 ms
"""
PTX = """\
.visible .entry _Z1gPf(
	.param .u64 _Z1gPf_param_0
)
.maxntid 128, 2, 1
{
	.loc	1 7 3
	ret;
	.loc	1 2 5, function_name $L__info_string0, inlined_at 1 9 4
	ret;
}
	.file	1 "/p/k.cu"
"""


def test_front_end_messages_with_lines_columns_and_instantiation() -> None:
    error, warning, template = parse_messages(FRONT_END, directory=Path("/p"))
    assert (error.path, error.line, error.column, error.severity) == ("/p/bad.cu", 3, 39, "error")
    assert (warning.code, warning.severity) == ("#177-D", "warning")
    assert template.path == "/p/inc/dev (1).h"
    assert template.text.endswith("(instantiated at line 4 of bad.cu)")


def test_host_compiler_message() -> None:
    text = "inc.cu:1:10: fatal error: none.h: No such file or directory\n    1 | #include\n"
    (message,) = parse_messages(text, directory=Path("/p"))
    assert message == CompilerMessage("error", "none.h: No such file or directory", "/p/inc.cu", 1, 10)


def test_ptxas_messages_name_source_lines_through_the_ptx() -> None:
    arrive, lost, lower, failed = parse_messages(PTXAS, directory=Path("/p"), ptx_lines=line_map(PTX))
    assert (arrive.code, arrive.function, arrive.path, arrive.line) == ("C7519", "_Z1gPf", "/p/k.cu", 9)
    assert (lost.code, lost.function, lost.line, lost.severity) == ("C7510", "_Z1gPf", 0, "information")
    assert lower.severity == "warning"
    assert failed.severity == "error"


def test_nvcc_fatal() -> None:
    (message,) = parse_messages("nvcc fatal   : Unknown option '-x1'\n", directory=Path("/p"))
    assert (message.severity, message.text) == ("error", "Unknown option '-x1'")


def test_ptx_bounds_and_lines() -> None:
    assert max_threads(PTX) == {"_Z1gPf": 256}
    assert line_map(PTX).source(7) == SourceLine("/p/k.cu", 7)
    assert line_map(PTX).source(8) == SourceLine("/p/k.cu", 9)
    assert line_map(PTX).source(2) is None


@given(st.text())
def test_any_text_is_read_without_error(text: str) -> None:
    for message in parse_messages(text, directory=Path("/p")):
        assert message.severity in ("error", "warning", "information")
