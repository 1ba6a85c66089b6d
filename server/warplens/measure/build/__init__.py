"""What of a candidate may be built, the fence it is built behind, and its machine code."""
