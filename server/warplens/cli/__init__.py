"""The command line: the same service, for terminals and CI."""
