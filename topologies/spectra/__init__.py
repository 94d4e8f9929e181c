"""Eigenvalues of mixing matrices, and the rates that they determine."""
