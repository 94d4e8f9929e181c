"""``python -m decentorth.doctor``: what works here, and how what does not is repaired."""
