"""Typed text, flags, memory and files, which the graphs and `decentorth` use equally."""
