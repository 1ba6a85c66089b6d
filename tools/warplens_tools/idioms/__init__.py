# SPDX-License-Identifier: Apache-2.0
"""Idioms: whole computations that are recognised in a kernel's text, and written anew by an implementation of ours."""
