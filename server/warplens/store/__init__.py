# SPDX-License-Identifier: Apache-2.0
"""Remembers: one SQLite database per user for runs, their journal, evidence, hit rates, decisions."""
