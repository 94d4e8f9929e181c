"""Nonsmooth problems over the Stiefel manifold."""
