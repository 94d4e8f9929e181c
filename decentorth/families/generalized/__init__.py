"""Points with x^T B x = I, where B may be known through samples only (paper 003)."""
