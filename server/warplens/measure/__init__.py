"""Judges candidates: builds, correctness, interleaved timing, the gate. Never decides what to try."""
