"""Families: each a folder with its methods, problems, sets and kernels, which the core does not
import."""
