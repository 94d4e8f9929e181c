"""Subgradient methods on the Stiefel manifold."""
