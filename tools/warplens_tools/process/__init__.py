"""Runs one program: a process group of its own, cancellation, and death with its parent."""
