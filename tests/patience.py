# SPDX-License-Identifier: Apache-2.0
"""How long a test waits for what comes."""

from __future__ import annotations

#: Seconds. Only what never comes takes so long: a minute of work has five at five times a machine's load.
PATIENCE = 300.0
