"""The launcher's environment and the end of a job, before NumPy is loaded."""
