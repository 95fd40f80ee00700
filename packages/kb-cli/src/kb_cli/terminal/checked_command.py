"""Commands and option types that refuse values without a meaning: empty texts, `-` for a file, and `nan`."""

from __future__ import annotations

import math
from typing import Any

import click

from kb_messages import KbError


class CheckedCommand(click.Command):
    """A click.Command that refuses empty values and paths called `-`, for all options and arguments.

    An empty value often comes from a variable of the shell that is not set, so it must not stand for a default or for
    the current folder. `-` is no name, because other tools mean a standard stream by it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses *args*. Raises KbError for an empty value, and for `-` as a file or folder."""
        if not ctx.resilient_parsing:
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            asked = self.get_help_option(ctx)
            for each in () if asked is not None and given.get(asked.name) else self.params:
                if each.type is not click.UNPROCESSED:  # these belong to another program
                    _check(each, given.get(each.name))
        return super().parse_args(ctx, args)


def _check(parameter: click.Parameter, given: object) -> None:
    texts = given if isinstance(given, (list, tuple)) else [given]
    named = parameter.human_readable_name if isinstance(parameter, click.Argument) else max(parameter.opts, key=len)
    if "" in texts:
        fix = "leave the option out for its default" if isinstance(parameter, click.Option) else ""
        raise KbError(named, "an empty value", "one that is not empty", fix)
    if isinstance(parameter.type, click.Path) and "-" in texts:
        needs = "a name, because kb neither reads nor writes a standard stream there"
        raise KbError(named, "'-'", needs, "write ./- for a file or folder that is called so")


class FiniteRange(click.FloatRange):
    """A click.FloatRange without infinity, and without `nan`, which no comparison finds too large."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns *value* as a number. Refuses one that is not finite or out of the range."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"got {value}, needs a finite number.", param, ctx)
        return found
