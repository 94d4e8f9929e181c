"""Networks that lose, delay or change messages."""
