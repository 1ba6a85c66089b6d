"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A change must pass or fail by what it changed: examples are the same in every run. To look for new
# ones, run with HYPOTHESIS_PROFILE=explore; what it finds becomes an @example or a fix.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("explore", max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
