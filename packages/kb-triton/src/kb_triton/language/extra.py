"""The namespace `tl.extra`: libdevice, and the vendors whose other names the chip does not have."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from kb_triton.language import libdevice
from kb_triton.language.missing import missing
from kb_triton.language.program import refuse


class VendorNames(SimpleNamespace):
    """What `tl.extra.VENDOR` has. Raises AttributeError for the extensions of the vendor."""

    def __getattr__(self, name: str) -> Any:
        vendor = self.__dict__.get("__name__", "tl.extra")
        raise missing(vendor, name, fix="the chip has no extensions of one vendor")


def refusing(name: str, needs: str) -> Callable[..., NoReturn]:
    """A function under the full *name* that is there to be imported. It refuses each call, and says what it *needs*."""

    def call(*arguments: Any, **named: Any) -> NoReturn:
        refuse(name, needs)

    return call


def _nothing() -> None:
    """Does nothing: a launch begins when the one before it is over."""


extra: Final = VendorNames(
    __name__="tl.extra",
    libdevice=libdevice,
    cuda=VendorNames(__name__="tl.extra.cuda", libdevice=libdevice, gdc_wait=_nothing, gdc_launch_dependents=_nothing),
    hip=VendorNames(__name__="tl.extra.hip", libdevice=libdevice),
    intel=VendorNames(__name__="tl.extra.intel", libdevice=libdevice),
)
"""The namespace `tl.extra`."""
