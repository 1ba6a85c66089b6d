"""Composes every room's settings; alone reads configuration files and the environment."""
