"""Rows, samples and their division over agents, which problems of several families use."""
