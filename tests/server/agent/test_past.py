# SPDX-License-Identifier: Apache-2.0
"""A run read back from its journal: as a page, a report, and in the format of other tuners."""

from __future__ import annotations

import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.past import PastRun, read_past
from warplens.agent.priors import Cause
from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.t4 import t4_of
from warplens.present.run_page import curve, run_page, tree
from warplens.present.run_report import run_report
from warplens.store.database import open_store
from warplens_tools.errors import InputError
from warplens_tools.finding import Gain
from warplens_tools.text import SourceText


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def done(store: sqlite3.Connection) -> tuple[OptimizeResult, PastRun]:
    cause = Cause("WL105", "occupancy-block-size", "scale", "high", Gain(1.3, 1.0, 2.0))
    result = optimize(problem(causes=[cause]), ComputedJudge(SourceText(CODE)), store)
    return result, read_past(store, result.run or 0)


def test_a_run_is_read_back_whole(store: sqlite3.Connection) -> None:
    result, past = done(store)
    assert past.text == CODE and past.baseline is not None and past.run.outcome == "faster"
    assert [v.candidate.id for v in past.told] == [t.id for t in result.tried]
    assert past.best is not None and past.best.candidate.edits == result.edits
    assert past.diff(past.best, "k.cu") == result.diff
    assert all(0 <= a.at <= b.at for a, b in zip(past.told, past.told[1:], strict=False))


def test_the_report_has_the_diff_its_proof_the_finding_and_what_did_not_help(
    store: sqlite3.Connection,
) -> None:
    result, past = done(store)
    report = run_report(past)
    assert result.diff.splitlines()[-1] in report and "WL105" in report
    assert "## The proof" in report and "95" not in report.split("## The proof")[0]
    worse = [t for t in result.tried if t.state in ("slower", "same", "wrong")]
    assert worse and all(t.title in report.split("did not help")[1] for t in worse)


def test_the_page_needs_nothing_else_and_shows_every_version(store: sqlite3.Connection) -> None:
    result, past = done(store)
    page = run_page(past)
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page) and "<script" not in page
    assert all(f'id="{t.id}"' in page for t in result.tried)
    for picture in (curve(past), tree(past)):
        drawn = ElementTree.fromstring(picture)
        assert sum(e.tag == "circle" for e in drawn.iter()) >= len(result.tried)


def test_a_page_holds_no_markup_of_the_users(store: sqlite3.Connection) -> None:
    code = CODE.replace("scale(", "scale/*<b>*/(", 1)
    result = optimize(problem(code, path="/<i>.cu"), ComputedJudge(SourceText(code)), store)
    page = run_page(read_past(store, result.run or 0))
    assert "<i>" not in page and "&lt;b&gt;" in page


def test_an_interrupted_run_is_shown_too(store: sqlite3.Connection) -> None:
    def stop(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimize(problem(), ComputedJudge(SourceText(CODE), stop), store)
    past = read_past(store, 1)
    assert len(past.told) == 3 and len(past.versions) > 3
    assert "waiting" in tree(past) and "cancelled" in run_report(past)


def test_an_unknown_run_is_said_so(store: sqlite3.Connection) -> None:
    with pytest.raises(InputError, match="no run 7"):
        read_past(store, 7)


def test_configurations_are_written_as_other_tuners_do(store: sqlite3.Connection) -> None:
    _, past = done(store)
    values = {"BLOCK": 256, "unroll, line 4": 1}
    written = msgspec.json.decode(msgspec.json.encode(t4_of(past, values | {"launch bounds, threads": 1024})))
    assert written["schema_version"] == "1.0.0" and written["results"]
    for result in written["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= result.keys()
        wrong = result["configuration"]["BLOCK"] == 1024
        assert (result["invalidity"], result["correctness"]) == (
            ("correctness", 0) if wrong else ("correct", 1)
        )
        assert result["times"]["runtimes"] == [
            m["value"] for m in result["measurements"] if m["name"] == "time"
        ]
    assert {r["configuration"]["BLOCK"] for r in written["results"]} >= {64, 192, 1024}
