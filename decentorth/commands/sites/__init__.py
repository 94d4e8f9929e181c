"""Runs between institutions: folders to hand over, joining a run, and a trial on this machine."""
