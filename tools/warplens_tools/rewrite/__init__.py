"""Deterministic source edits that answer findings, one file each; quick fixes, `--fix` and the agent share them."""
