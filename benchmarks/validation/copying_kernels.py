"""Kernels that store loaded values unchanged, in loops or as a grid, and kernels that read such copies."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine import Language, TensorRef


def copied(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a; the last turn may have fewer rows."""
    m = a.shape[0]
    first, last = (number * m // tl.num_programs() for number in (tl.program_id(), tl.program_id() + 1))
    for start in range(first, last, rows):
        part = slice(start, min(start + rows, last))
        tl.store(c[part, :], tl.load(a[part, :]))


def spread(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All rows of c are the program's first of a, loaded before the loop and stored once more behind it."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    value = tl.load(a[first : first + rows, :])
    for turn in range(turns):
        tl.store(c[first + turn * rows : first + turn * rows + rows, :], value)
    tl.store(b[first : first + rows, :], value)


def behind(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each turn stores the values of the two turns before it: one was loaded, and one computed."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    older = tl.load(b[first : first + rows, :])
    old = tl.load(a[first : first + rows, :])
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        tl.store(c[mine, :], older)
        older, old = old, tl.load(a[mine, :])
        tl.store(b[mine, :], old * 2.0)


def handed_on(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each turn stores where the next one loads."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns - 1):
        at = first + turn * rows
        tl.store(a[at + rows : at + 2 * rows, :], tl.load(a[at : at + rows, :]))


def half_over(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each store overlaps the store of the turn before by half, and the load of the next turn by the other half."""
    turns, half = a.shape[0] // tl.num_programs() // rows, (rows + 1) // 2
    first = tl.program_id() * turns * rows
    for turn in range(turns - 1):
        at = first + turn * half
        tl.store(c[at : at + rows, :], tl.load(c[at + half : at + half + rows, :]))


def to_others(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each program stores where another one loads, some turns before or behind."""
    n = tl.num_programs()
    turns = a.shape[0] // n // rows
    for turn in range(turns):
        mine = (turn * n + tl.program_id()) * rows
        other = ((turn + 2) % turns * n + (tl.program_id() + 1) % n) * rows
        tl.store(a[other : other + rows, :], tl.load(a[mine : mine + rows, :]))


def known_and_pending(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Computed and copied values go to the same rows, one after the other, at places of their own or not."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        x = tl.load(a[mine, :])
        tl.store(c[mine, :], x * 2.0)
        tl.store(b[0:rows, :], tl.load(c[mine, :]))
        if turn % 2 == 0 or rows == 1:
            tl.store(c[mine, :], x)
        tl.store(b[0:rows, :], x)


def copied_result(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A result is loaded again and copied, and so are the values that it has overwritten."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        before = tl.load(b[mine, :])
        tl.store(b[mine, :], before + 1.0)
        tl.store(c[mine, :], tl.load(b[mine, :]))
        tl.store(a[mine, :], before)


def columns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Every other column of c, in pieces, is one of a, and a part of the others a value of another shape."""
    turns, half = a.shape[0] // tl.num_programs() // rows, a.shape[1] // 2
    first = tl.program_id() * turns * rows
    places = 2 * tl.arange(half)[None, :]
    for turn in range(turns):
        start = first + turn * rows
        x = tl.load(a[start : start + rows, 0:half])
        tl.store(c[(start + tl.arange(rows))[:, None], places], x)
        tl.store(b[start : start + rows, 0:half], x.reshape(1, -1).reshape(rows, half))


def masked(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Masks that leave columns out of the load, of the store, and of neither, with rows that the last turn lacks."""
    turns, wide = a.shape[0] // tl.num_programs() // rows, a.shape[1]
    first = tl.program_id() * turns * rows
    column = tl.arange(wide)[None, :]
    for turn in range(turns):
        row = (first + turn * rows + tl.arange(rows))[:, None]
        inside = row < a.shape[0] - 1
        x = tl.load(a[row, column], mask=inside & (column < wide - 5), other=7.0)
        tl.store(c[row, column], x, mask=inside & (column >= 3))
        tl.store(b[row, column], x, mask=inside)


def ragged(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Masks that leave nothing out, except in the last turn of a program."""
    turns, wide = a.shape[0] // tl.num_programs() // rows, a.shape[1]
    first, last = (number * turns * rows for number in (tl.program_id(), tl.program_id() + 1))
    column = tl.arange(wide)[None, :]
    for turn in range(turns):
        row = (first + turn * rows + tl.arange(rows))[:, None]
        tl.store(c[row, column], tl.load(a[row, column], mask=row < last), mask=row < last)


def nested(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Copies and results in loops within a loop, which goes over a range twice."""
    turns, half = a.shape[0] // tl.num_programs() // rows, a.shape[1] // 2
    first = tl.program_id() * turns * rows
    for _ in range(2):
        for turn in range(turns):
            mine = slice(first + turn * rows, first + turn * rows + rows)
            for start in range(0, 2 * half, half):
                x = tl.load(a[mine, start : start + half])
                tl.store(c[mine, start : start + half], x)
            tl.store(b[mine, 0:half], x + 1.0)


def in_rounds(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Every second turn stores values of two turns before at one place, and every third turn stores a value again."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    older, old, value = (tl.load(b[first + n * rows : first + n * rows + rows, :]) for n in (5, 6, 7))
    for turn in range(turns):
        mine, again, place = (first + n * rows for n in (turn, turn % 2 * turn, turn % 3))
        tl.store(c[again : again + rows, :], older)
        older, old = old, tl.load(a[mine : mine + rows, :])
        tl.store(b[place : place + rows, :], value)


COPIES: tuple[Callable[..., None], ...] = (
    copied,
    spread,
    behind,
    handed_on,
    half_over,
    to_others,
    known_and_pending,
    copied_result,
    columns,
    masked,
    ragged,
    nested,
    in_rounds,
)


def one_copied(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a, some rows a program."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(c[mine, :], tl.load(a[mine, :]))


def passed_on(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A program stores where one some programs behind it loads."""
    mine, later = tl.program_id() * rows, (tl.program_id() + 5) * rows
    tl.store(b[later : later + rows, :], tl.load(b[mine : mine + rows, :]))


def at_one_place(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All programs copy to one place, and each then loads from there."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(b[0:rows, :], tl.load(a[mine, :]))
    tl.store(c[mine, :], tl.load(b[0:rows, :]))


def results_and_copies(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A result and its operand go to rows of their own and to one place."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x = tl.load(a[mine, :])
    tl.store(c[mine, :], x * 2.0)
    y = tl.load(c[mine, :])
    tl.store(c[0:rows, :], x)
    tl.store(b[mine, :], y)
    tl.store(c[0:rows, :], y)


def exchanged(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """a and b exchange their rows with a sum in between, and c has the rows of a before."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x, y = tl.load(a[mine, :]), tl.load(b[mine, :])
    z = x + y
    tl.store(a[mine, :], y)
    tl.store(b[mine, :], z)
    tl.store(c[mine, :], x)


COPYING_PROGRAMS: tuple[Callable[..., None], ...] = (
    one_copied,
    passed_on,
    at_one_place,
    results_and_copies,
    exchanged,
)
