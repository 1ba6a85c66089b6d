# SPDX-License-Identifier: Apache-2.0
"""What of a candidate may be built, the fence it is built behind, and its machine code."""
