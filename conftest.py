"""What all tests have in common."""

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from msgspec import Struct
from parameter_ids import id_of
from sampled_cases import examples

# How long an example takes is the machine's affair; a test that hangs ends by pytest's timeout.
settings.register_profile("kernbench", deadline=None, max_examples=examples(100))
settings.load_profile("kernbench")

# A shell starts a command that ends in `&` with SIGINT ignored, and tests and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

RARE_COLLECTIONS = (10_000, 10, 50)
"""Thresholds of Python's garbage collector, fourteen times and five times those of Python. Source: measured; a sixth of
the integration tests' time was spent in looks at all objects, of which most are pytest's own and those of libraries."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what collected tests are made of out of later garbage collections, because it lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*RARE_COLLECTIONS)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name the tuples, lists and structs among parameters, which pytest numbers: `changes0`, `changes1`."""
    return id_of(val) if isinstance(val, tuple | list | Struct) else None
