"""The asynchronous method: agents that wait for nobody, their schedules, logs and runs on ranks."""
