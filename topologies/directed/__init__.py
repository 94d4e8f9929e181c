"""Directed communication graphs, their row- and column-stochastic weights, and the spectra of
these."""
