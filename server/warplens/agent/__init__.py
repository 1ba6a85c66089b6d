# SPDX-License-Identifier: Apache-2.0
"""Proposes candidates: MCTS, parameter templates, model roles, memory. Never decides what is true."""
