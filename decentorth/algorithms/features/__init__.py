"""Methods for agents that hold rows of x: features of the same samples."""
