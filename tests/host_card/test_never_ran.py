# SPDX-License-Identifier: Apache-2.0
"""What never ran on any inputs is not proven: a case that is dropped, and a kernel written anew that keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host_card.judging import candidate, on_software_card

from warplens.measure.judge import Judge

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "escapes.cu"
_BODY = """    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned hash = hashed(words[i], 0);
    float at = hash % 97;
    if (hash == kEscaped) at = -1;
    out[i] = at * by;
"""
#: Every thread takes what lies a grid further, too, under other names.
_ANEW = """    const int step = gridDim.x * blockDim.x;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += step) {
        const unsigned code = hashed(words[k], 0);
        out[k] = by * (kEscaped != code ? float(code - code / 97 * 97) : -1.0f);
    }
"""
_DROPPED = """    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = by * float(hashed(words[i], 0) % 97);
"""
#: A case of the edit's own that nothing tries: words that no run is given are left to a table of another build.
_OWN_CASE = """    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned hash = hashed(words[i], 0);
    out[i] = by * (hash == kEscaped ? -1.0f : hash == 0x7a3c91e5u ? 5.0f : float(hash % 97));
"""


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    yield from on_software_card(SOURCE, "place", monkeypatch, tmp_path)


def test_a_case_that_no_inputs_lead_to_is_not_dropped(judge: Judge) -> None:
    dropped = candidate(SOURCE, "dropped", _BODY, _DROPPED)
    found = judge.confirm(dropped).verdict
    assert found.state == "unproven", found
    assert "`hash == kEscaped` always came out the same" in found.reason
    written_anew = judge.confirm(candidate(SOURCE, "anew", _BODY, _ANEW))
    assert written_anew.verdict.state == "faster", written_anew.verdict.reason
    said = {one.what: one.why for one in written_anew.unknown}
    line = SOURCE.read_text().splitlines().index("    if (hash == kEscaped) at = -1;") + 1
    assert f"what lines {line} of place do in every case" in said, said
    assert written_anew.cost["all inputs"] > 0
    own = judge.confirm(candidate(SOURCE, "own", _BODY, _OWN_CASE)).verdict
    assert own.state == "unproven", own
    assert "which the kernel does not" in own.reason
