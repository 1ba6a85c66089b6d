# SPDX-License-Identifier: Apache-2.0
"""The probe: a CUPTI library that judges kernels inside the user's own running program.

The C++ beside this file is built on first use and cached. `job` says what a run of it shall do, `records`
what it answers, `visit` runs a program with it.
"""
