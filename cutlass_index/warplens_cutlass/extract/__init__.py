"""From the text of one file to plain facts: definitions, documentation, mentions. No database here."""

from warplens_cutlass.extract.file import extract_file

__all__ = ["extract_file"]
