# SPDX-License-Identifier: Apache-2.0
"""Judges a program from outside: by what it prints, writes and exits with, and how long it takes."""
