"""Judges a kernel in place: inside the user's own running program."""
