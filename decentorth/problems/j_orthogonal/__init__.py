"""Problems over {x : x^T J x = J}."""
