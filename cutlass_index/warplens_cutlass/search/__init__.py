"""Answers questions from the index: by words, by name, and by code."""
