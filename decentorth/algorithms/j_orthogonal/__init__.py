"""Methods of a single agent on {x : x^T J x = J}."""
