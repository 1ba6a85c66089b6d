# SPDX-License-Identifier: Apache-2.0
"""The CUDA toolkit: finding it, compiling and linking with it, and reading what its programs print and write."""
