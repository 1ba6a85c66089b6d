"""What several micro-profiling tools share."""
