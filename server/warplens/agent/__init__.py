"""Proposes candidates: MCTS, parameter templates, model roles, memory. Never decides what is true."""
