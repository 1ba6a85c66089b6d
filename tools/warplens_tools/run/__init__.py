# SPDX-License-Identifier: Apache-2.0
"""Runs programs: process groups with time limits and cancellation, workloads, the GPU lock, the probe."""
