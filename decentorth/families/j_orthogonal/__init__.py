"""Points with x^T J x = J: hyperbolic eigenvalues and probes, by Jacobi methods on pairs of rows
(paper 001)."""
