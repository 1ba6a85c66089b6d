# SPDX-License-Identifier: Apache-2.0
"""What a kernel, or the host code around it, does: one fact a module."""
