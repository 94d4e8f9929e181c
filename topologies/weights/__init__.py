"""Mixing matrices from graphs."""
