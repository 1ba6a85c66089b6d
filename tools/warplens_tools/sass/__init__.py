# SPDX-License-Identifier: Apache-2.0
"""Reads meaning out of SASS: which pipe an instruction uses, what it moves, which loop it stands in."""
