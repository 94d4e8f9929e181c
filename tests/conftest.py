"""What every test may count on."""

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it, and so would be our children
settings.register_profile("tests", deadline=None, derandomize=True)  # the same examples everywhere, however busy the machine is
settings.load_profile("tests")
