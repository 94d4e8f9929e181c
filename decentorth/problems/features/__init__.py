"""Problems whose agents hold features, rows of x, of the same samples."""
