"""What a kernel, or the host code around it, does: one fact a module."""
