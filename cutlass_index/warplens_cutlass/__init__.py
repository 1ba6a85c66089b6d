"""Finds the CUTLASS/CuTe symbol or example that answers a question, from words, a name, or code."""
