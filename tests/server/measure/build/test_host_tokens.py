# SPDX-License-Identifier: Apache-2.0
"""What a candidate's host side begins with as its baseline's is not read again, and nothing else changes by that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warplens.measure.build.host_tokens import read_host

TEXT = """\
#define _NV_ANON_NAMESPACE _GLOBAL__N__5f1c_4_k_cu
# 1 "/usr/include/stdio.h" 1 3
extern int puts(const char*);
#if 0
__attribute__((device)) int hidden;
#if 1
#endif
#endif
struct __T1001 { int a; };
# 7 "k.cu"
namespace _GLOBAL__N__5f1c_4_k_cu { int own; }

template<class T> void call(T t) { t(__T1001()); }
#if 0
int never;
#endif
struct __T1002 { __T1001 b; };
int main() { call("a \\" string"); return 0; }
"""
LINES = TEXT.splitlines()
PUT = st.sampled_from(
    [
        "int more;",
        "#if 0",
        "#endif",
        '# 3 "other.h"',
        "struct __T77 {};",
        "int main() { return 1; }",
        "",
        "#pragma x",
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), st.one_of(st.none(), PUT)), max_size=4))
def test_a_text_reads_the_same_beside_its_baseline(edits: list[tuple[int, str | None]]) -> None:
    lines = list(LINES)
    for place, put in edits:
        at = min(place, len(lines))
        lines[at : at + (put is None)] = [] if put is None else [put]
    text = "\n".join(lines)
    assert read_host(text, read_host(TEXT)) == read_host(text)


def test_closures_are_counted_alike_whatever_their_numbers() -> None:
    other = TEXT.replace("__T1001", "__T5").replace("__T1002", "__T9")
    first, second = read_host(TEXT), read_host(other)
    assert first.lines == second.lines and "struct __T1 { __T0 b; };" in first.lines
    assert "hidden" not in first.tokens and "never" not in first.tokens
