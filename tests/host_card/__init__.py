# SPDX-License-Identifier: Apache-2.0
"""A card in software: whole CUDA programs, and the judge's probe inside them, without a GPU."""
