# SPDX-License-Identifier: Apache-2.0
"""Stage 1: what bounds a kernel, how near it is to each roof, and the drawing of it."""
