# SPDX-License-Identifier: Apache-2.0
"""What expressions come to: names and their values, types, affine forms, pointers."""
