"""Ways to colour slices: by stage, by kernel line, by command, by whether they are on the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.web.lanes.lane_table import Kinds, LaneTable
from kb_messages import KbError

STAGE, LINE, COMMAND, PATH = COLOURINGS = ("stage", "line", "command", "path")
OWN_COLOURS: Final = 7
"""The most kinds with a colour of their own, the ones with the most time. A palette that everybody can read has no
more."""
OTHERS: Final = "others"


def check_colouring(text: str) -> str:
    """Returns *text*, if it is a way to colour. Raises KbError for anything else."""
    if text not in COLOURINGS:
        raise KbError("colour", repr(text[:40]), f"one of {', '.join(COLOURINGS)}")
    return text


def by_words(table: LaneTable, name: str) -> Kinds:
    """Returns kinds by the stage of each slice, or by its kernel line."""
    words = [word or "no line" for word in (table.lines if name == LINE else table.stages)]
    texts = sorted(set(words))
    place = {text: at for at, text in enumerate(texts)}
    number = np.array([place[word] for word in words], np.int64)
    return _costliest(name, number[table.slices.name], texts, table.busy_ps())


ON_PATH: Final = "on the critical path"
MOST_NAMES: Final = 200
"""The most names of a lane whose slices all have their own name. A kind is a byte."""


def by_every_word(table: LaneTable) -> Kinds:
    """Returns kinds by the stage of each slice, each stage with its own: colours come again where there are many."""
    texts = list(dict.fromkeys(table.stages))
    place = {text: at for at, text in enumerate(texts)}
    number = np.array([place[word] for word in table.stages], np.uint8)
    return Kinds(STAGE, number[table.slices.name], texts)


def by_command(command: Ints) -> Kinds:
    """Returns kinds that differ between a command and the few before and after it. *command* has the command of each
    slice, and -1 for none.
    """
    number = np.where(command >= 0, command % OWN_COLOURS, OWN_COLOURS).astype(np.uint8)
    texts = [f"commands {each}, {each + OWN_COLOURS}, ..." for each in range(OWN_COLOURS)]
    return Kinds(COMMAND, number, [*texts, OTHERS] if (command < 0).any() else texts)


def by_path(table: LaneTable, ops: Ints) -> Kinds:
    """Returns kinds by whether the op of a slice is among *ops*, the ops on the critical path, which ascend."""
    op = table.slices.arguments["op"]
    at = np.minimum(np.searchsorted(ops, op), max(len(ops) - 1, 0))
    is_on = ops[at] == op if len(ops) else np.zeros(len(op), np.bool_)
    return Kinds(PATH, (~is_on).astype(np.uint8), (ON_PATH, "beside it"))


def all_alike(table: LaneTable, name: str, text: str) -> Kinds:
    """Returns one kind, *text*, for all slices."""
    return Kinds(name, np.zeros(len(table.start_ps), np.uint8), (text,))


def by_one_line(table: LaneTable, line: str) -> Kinds:
    """Returns two kinds: slices of *line*, and all others."""
    others = np.array([each != line for each in table.lines], np.uint8)
    return Kinds(f"only {line}", others[table.slices.name], (line, "other lines"))


def _costliest(name: str, number: Ints, texts: Sequence[str], busy_ps: Ints) -> Kinds:
    """Returns kinds from the *number* of each slice's text: the ones with most of *busy_ps*, and all others
    together.
    """
    spent = np.bincount(number, busy_ps, len(texts))
    there = np.flatnonzero(np.bincount(number, minlength=len(texts)))
    order = there[np.argsort(-spent[there], kind="stable")]
    own = order if len(order) <= OWN_COLOURS + 1 else order[:OWN_COLOURS]
    place = np.full(len(texts), len(own), np.uint8)
    place[own] = np.arange(len(own))
    shown = [texts[at] for at in own.tolist()]
    return Kinds(name, place[number], shown if len(own) == len(order) else [*shown, OTHERS])
