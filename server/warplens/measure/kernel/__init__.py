# SPDX-License-Identifier: Apache-2.0
"""Judges a kernel in place: inside the user's own running program."""
