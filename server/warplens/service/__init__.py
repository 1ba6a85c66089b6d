# SPDX-License-Identifier: Apache-2.0
"""The façade every front end uses: check, profile, optimize, search, doctor. Plain data in and out."""
