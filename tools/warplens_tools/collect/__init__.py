# SPDX-License-Identifier: Apache-2.0
"""Runs the real tools (nvcc, ptxas, nvdisasm, ncu, nsys, NVML) and parses what they say, apart."""
