# SPDX-License-Identifier: Apache-2.0
"""Limits and rates per architecture, one TOML each, and the `Gpu` that a finding is judged against."""
