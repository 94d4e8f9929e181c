"""Objectives that are not differentiable (papers 000 and 002), and proximal methods."""
