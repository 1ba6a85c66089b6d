# SPDX-License-Identifier: Apache-2.0
"""Cubins: variables, names that differ between builds, equal code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.errors import InputError
from warplens_tools.toolchain.locate import resolve_toolchain
from warplens_tools.toolchain.symbols import code_digest, live_names, unit_free_name, variables

PROGRAM = Path(__file__).parents[2] / "gpu/programs/anonymous_globals.cu"


def compile_to(output: Path, text: str, name: str = "unit.cu") -> bytes:
    nvcc = resolve_toolchain().find("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    output.mkdir(parents=True)
    (output / name).write_text(text)
    subprocess.run(
        [nvcc.path, "-cubin", "-arch=sm_90", "-lineinfo", "-o", "unit.cubin", name], cwd=output, check=True
    )
    return (output / "unit.cubin").read_bytes()


@pytest.mark.compiler
def test_variables_and_code_of_real_cubins(tmp_path: Path) -> None:
    text = PROGRAM.read_text()
    one = compile_to(tmp_path / "a", text)
    other = compile_to(tmp_path / "b", "// a line more\n" + text)
    changed = compile_to(tmp_path / "c", text.replace("sum += in[i]", "sum -= in[i]"))
    found = {unit_free_name(v.name): v.bytes for v in variables(one)}
    assert found == {"table": 256, "total": 4, "(anonymous namespace)::finished": 4}
    assert {unit_free_name(v.name) for v in variables(other)} == set(found)
    assert code_digest(one) == code_digest(other)
    assert code_digest(one) != code_digest(changed)
    names = tuple(v.name for v in variables(one))
    live = live_names(names, other)
    assert set(live.values()) == {v.name for v in variables(other)}
    assert live_names(names, b"nothing here")["table"] == "table"


@given(st.binary(max_size=200))
def test_what_is_no_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        variables(data)
    with pytest.raises(InputError):
        code_digest(b"\x7fELF\x02" + data)
