"""The CUDA toolkit: finding it, compiling and linking with it, and reading what its programs print and write."""
