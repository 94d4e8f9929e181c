"""The doctor: an examination of the installation, with a remedy for each fault."""
