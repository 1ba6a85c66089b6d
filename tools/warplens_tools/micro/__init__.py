"""Stage 2: the micro-profiling tools, one file each, listed in `registry`."""
