"""Gradients and fields in blocks, rounds of mixing, and step sizes, which methods of several families use."""
