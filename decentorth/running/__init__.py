"""The loop over iterations, what it records, when it stops, and checkpoints."""
