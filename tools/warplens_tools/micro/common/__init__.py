# SPDX-License-Identifier: Apache-2.0
"""What several micro-profiling tools share."""
