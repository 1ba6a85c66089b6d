# SPDX-License-Identifier: Apache-2.0
"""A language model as one more source of proposals: providers, roles, prompts, and what they may spend."""
