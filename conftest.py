"""What all tests have in common."""

import signal

from hypothesis import settings

# How long an example takes is the machine's affair; a test that hangs ends by pytest's timeout.
settings.register_profile("kernbench", deadline=None)
settings.load_profile("kernbench")

# A shell starts a command that ends in `&` with SIGINT ignored, and tests and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
