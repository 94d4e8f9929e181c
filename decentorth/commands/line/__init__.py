"""Command-line machinery: settings, flags, configuration files, printed output, and the files of a
run."""
