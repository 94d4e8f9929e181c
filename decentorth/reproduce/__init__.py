"""The figures, tables and claims of the five papers, each by one command: ``python -m decentorth.reproduce``."""
