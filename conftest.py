"""What all tests have in common."""

from hypothesis import settings

# How long an example takes is the machine's affair; a test that hangs ends by pytest's timeout.
settings.register_profile("kernbench", deadline=None)
settings.load_profile("kernbench")
