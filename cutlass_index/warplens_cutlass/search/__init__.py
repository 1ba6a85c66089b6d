# SPDX-License-Identifier: Apache-2.0
"""Answers questions from the index: by words, by name, and by code."""
