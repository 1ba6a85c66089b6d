# SPDX-License-Identifier: Apache-2.0
"""Results in words, once for the terminal and the editor. Plain data in, text out; no markup, no protocol."""
