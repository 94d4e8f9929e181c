"""Agents that hold features of the same samples, and rows of one point."""
