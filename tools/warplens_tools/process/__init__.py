# SPDX-License-Identifier: Apache-2.0
"""Runs one program: a process group of its own, cancellation, and death with its parent."""
