"""Examples of a method and of a problem of one's own, and the command that copies them under
another name."""
