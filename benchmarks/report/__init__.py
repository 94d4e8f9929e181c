"""The sections of the report of `python -m benchmarks`, a module each, and their rows, peers and
text."""
