# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests."""

from __future__ import annotations

import fcntl
import gc
import os
import zlib
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.standard import WITHOUT_WHAT_NO_TEST_CALLS
from tests.tiers import mark_tiers

# For every nvcc of the tests, in whatever process it is started. A worker finds there what its parent put: what is kept
# of compilers goes by it, and must be found by both.
_given = os.environ.get("NVCC_PREPEND_FLAGS", "").split()
_missing = [flag for flag in WITHOUT_WHAT_NO_TEST_CALLS if flag not in _given]
os.environ["NVCC_PREPEND_FLAGS"] = " ".join([*_missing, *_given])

# Modules and thousands of tests stay to the end: they are made without a look for garbage, and then left out of it.
gc.disable()

# A change must pass or fail by what it changed: examples are the same in every run. To look for new
# ones, run with HYPOTHESIS_PROFILE=explore; what it finds becomes an @example or a fix.
# No deadline: how long an example takes says more of the machine than of the code.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="", metavar="K/N", help="marks a share of the thorough tests `in_share`"
    )


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """One worker compiles a module and what it imports; the others wait for that, and read what it wrote."""
    cache = collector.config.cache
    if "PYTEST_XDIST_WORKER" not in os.environ or not isinstance(collector, pytest.Module) or cache is None:
        return (yield)
    with (cache.mkdir("collected") / "lock").open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, zlib.crc32(collector.nodeid.encode()))
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before `-m` chooses by the marks."""
    mark_tiers(items, config.getoption("share"))


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, and seldom, as in the language server."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
