"""UltraE and the link prediction of paper 001: facts, scores and ranks."""
