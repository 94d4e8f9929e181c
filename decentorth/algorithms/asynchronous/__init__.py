"""The asynchronous method: agents that do not wait, their schedules, logs and runs on ranks."""
