"""What every test may count on."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it, and so would be our children
