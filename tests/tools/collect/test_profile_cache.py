# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.collect.profile_cache import KEPT, content_key, load_profile, named_files, store_profile
from warplens_tools.collect.profiled import ProfiledLaunch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))


def test_what_was_stored_is_found_under_the_same_content_only(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("one")
    key = content_key(["sm_90", b"request"], [source])
    launch = ProfiledLaunch("ncu", "k(int)", metrics={"a": 1.0})
    store_profile(key, (launch,))
    assert load_profile(key, tuple[ProfiledLaunch, ...]) == (launch,)
    source.write_text("two")
    assert content_key(["sm_90", b"request"], [source]) != key
    assert load_profile(content_key(["sm_90", b"request"], [source]), tuple[ProfiledLaunch, ...]) is None


def test_parts_do_not_run_into_each_other() -> None:
    assert content_key(["ab", "c"], []) != content_key(["a", "bc"], [])


def test_a_damaged_entry_counts_as_none(tmp_path: Path) -> None:
    store_profile("k", ("x",))
    (tmp_path / "cache/profiles/k.msgpack").write_bytes(b"\x93\x01")
    assert load_profile("k", tuple[ProfiledLaunch, ...]) is None


def test_old_entries_go_first(tmp_path: Path) -> None:
    for i in range(KEPT + 5):
        store_profile(f"k{i}", i)
    assert len(list((tmp_path / "cache/profiles").iterdir())) == KEPT


def test_inputs_named_on_the_command_line_count(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"1")
    found = named_files(["--input=in.bin", "in.bin", "none", "\0"], tmp_path)
    assert found == [tmp_path / "in.bin"] * 2
