"""Communication that varies with time."""
