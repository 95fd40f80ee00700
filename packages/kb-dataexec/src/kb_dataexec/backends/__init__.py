"""Backends compute matrix products and math functions: numpy, or torch with the extra `torch`.

Moves and casts are no work of a backend. The backend in use is a context variable, so nothing between the executor and
the ops has to pass it on. A new thread starts with numpy. A thread that computes for an executor must run in a copy of
the executor's context (`contextvars.copy_context`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from kb_dataexec.backends.base import Backend, BackendError
from kb_dataexec.backends.numpy_backend import NumpyBackend

__all__ = ["BACKENDS", "Backend", "BackendError", "NumpyBackend", "current", "load_backend", "using"]

BACKENDS: Final = ("numpy", "torch")

_current: ContextVar[Backend] = ContextVar("kb_dataexec.backend", default=NumpyBackend())  # noqa: B039, it has no state


def current() -> Backend:
    """The backend in use in this context."""
    return _current.get()


@contextmanager
def using(backend: Backend) -> Iterator[None]:
    """Computes with *backend* until the block ends."""
    token = _current.set(backend)
    try:
        yield
    finally:
        _current.reset(token)


def load_backend(name: str, device: str = "cpu") -> Backend:
    """The backend *name*, one of BACKENDS. It computes on *device*: `cpu`, or for torch any device of torch.

    Raises BackendError for an unknown name, a backend that is not installed, and a device that is not there.
    """
    if name == "torch":
        from kb_dataexec.backends.torch_backend import TorchBackend

        return TorchBackend(device)
    if name != "numpy":
        raise BackendError("backend", repr(name), f"one of {', '.join(BACKENDS)}")
    if device != "cpu":
        raise BackendError("backend numpy", f"device {device!r}", "'cpu'", "use the backend torch for other devices")
    return NumpyBackend()
