# SPDX-License-Identifier: Apache-2.0
"""Stage 2: the micro-profiling tools, one file each, listed in `registry`."""
