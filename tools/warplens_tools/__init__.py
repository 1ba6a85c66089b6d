# SPDX-License-Identifier: Apache-2.0
"""Sees and acts on CUDA source: the source model, rewrites, collectors and micro-profiling tools.

This is the lowest room. It imports nothing of `warplens` or `warplens_cutlass`, speaks no protocol,
and every result is plain data (`msgspec.Struct`).
"""
