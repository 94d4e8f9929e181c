"""Studies of communication graphs: sweeps over graphs, weights and problems that end in a tidy CSV
file and a figure.

``python -m decentorth study spectral|consensus|drfgt``. A study is a list of independent trials; a
trial is a few names and numbers that determine its rows, so the file is the same for any number of
workers, and an interrupted study continues where it stopped.
"""
