# SPDX-License-Identifier: Apache-2.0
"""CUDA programs run on the CPU, so that tests can compare what a program prints before and after an edit."""

from __future__ import annotations

from tests.host_cuda.program import HostProgram, HostRunError, agree, same_results

__all__ = ["HostProgram", "HostRunError", "agree", "same_results"]
