"""Behind the commands: settings, flags and files, what is printed, and what is written about a run."""
