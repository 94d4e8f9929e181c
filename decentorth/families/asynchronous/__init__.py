"""Agents that act by their own clocks: the method, its drivers on ranks and in one process, its
runs, logs and replays."""
