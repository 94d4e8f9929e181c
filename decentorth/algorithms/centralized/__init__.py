"""Methods of a single agent on smooth problems."""
