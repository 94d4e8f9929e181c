"""Smooth problems over the Stiefel manifold."""
