# SPDX-License-Identifier: Apache-2.0
"""The tree-sitter model of CUDA source: kernels, launch sites, and what they share."""
