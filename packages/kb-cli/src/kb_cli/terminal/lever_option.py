"""The option `--levers` of commands that measure levers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])


class _Most(click.IntRange):
    """A number of levers, of which `none` is 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns *value* as a number; `none` is 0."""
        if value == "none":
            return 0
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"got {value!r}, needs a number from 0 or none.", param, ctx)


def lever_option(text: str) -> Callable[[C], C]:
    """Returns the option, a parameter `most` that is None where the user gave none. *text* is its help."""
    return click.option("--levers", "most", type=_Most(min=0), metavar="N|none", help=text)
