"""Sums in a fixed order and random numbers by counters, the same on any number of ranks."""
