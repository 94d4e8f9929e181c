"""Problems over {x : x^T B x = I}."""
