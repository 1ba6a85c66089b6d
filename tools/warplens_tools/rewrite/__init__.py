# SPDX-License-Identifier: Apache-2.0
"""Deterministic source edits that answer findings, one file each, for quick fixes and the agent alike."""
