"""Methods of a network of agents."""
