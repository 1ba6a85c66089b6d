# SPDX-License-Identifier: Apache-2.0
"""Judges candidates: builds, correctness, interleaved timing, the gate. Never decides what to try."""
