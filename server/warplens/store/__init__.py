"""Remembers: one SQLite database for runs, evidence, verdicts and hit rates."""
