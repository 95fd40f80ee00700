"""tl.map_elementwise: a function of scalars, with branches, for each element of blocks.

The function is called with the blocks. Where it asks for the truth of a block, it is called once with the answer
*true* and once with the answer *false*, and `tl.where` takes the elements of the two results. So both ways are
computed, as ops of whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kb_triton.language.arithmetic import as_tensor, broadcast_shapes, plain_number
from kb_triton.language.program import answering, refuse
from kb_triton.language.selection import where
from kb_triton.language.shapes import broadcast_to, picked, reshape, stacked
from kb_triton.language.tensor import tensor

MOST_WAYS: Final = 256
"""The most ways through the branches of one function."""


def map_elementwise(scalar_fn: Callable[..., Any], *args: Any, pack: Any = 1) -> Any:
    """What *scalar_fn* returns for each element of *args*, which are broadcast to one shape.

    With *pack*, a call takes so many neighbouring elements of each block, and returns as many of each result.
    """
    count = plain_number(pack)
    if not args or not isinstance(count, int) or count < 1 or count & (count - 1):
        refuse(f"tl.map_elementwise of {len(args)} blocks with pack={pack!r}", "a block, and a power of two")
    blocks = [as_tensor(each) for each in args]
    shape: tuple[int, ...] = ()
    for each in blocks:
        shape = broadcast_shapes(shape, each.shape, "tl.map_elementwise")
    given = [each for block in blocks for each in _elements(broadcast_to(block, shape), count)]
    found, is_single = _Ways(scalar_fn, given).results()
    if len(found) % count:
        refuse(
            f"tl.map_elementwise with pack={count} of a function with {len(found)} results", f"a multiple of {count}"
        )
    like = given[0].shape
    whole = [broadcast_to(each, like) for each in found]
    results = [reshape(_in_turn(whole[at : at + count]), shape) for at in range(0, len(whole), count)]
    return results[0] if is_single else tuple(results)


def _elements(block: tensor, count: int) -> list[tensor]:
    """The blocks of every first, second, ... of *count* neighbours in *block*."""
    if count == 1:
        return [block]
    if block.numel % count:
        refuse(f"tl.map_elementwise with pack={count} of {block.numel} elements", "a multiple of pack")
    n = block.numel // count
    rows = reshape(block, (n, count))
    return [reshape(picked(rows, 1, number, count), (n,)) for number in range(count)]


def _in_turn(blocks: list[tensor]) -> tensor:
    """The elements of as many *blocks* as a power of two, the first of each, then the second of each, and so on."""
    if len(blocks) == 1:
        return blocks[0]
    return stacked(_in_turn(blocks[::2]), _in_turn(blocks[1::2]), blocks[0].rank)


class _Ways:
    """The ways of *function* with *blocks* through its branches."""

    def __init__(self, function: Callable[..., Any], blocks: list[tensor]) -> None:
        self._function = function
        self._blocks = blocks
        self._is_single = True
        self._n_calls = 0

    def results(self) -> tuple[list[tensor], bool]:
        """What the function returns, and whether that is one value and no tuple."""
        return self._after(()), self._is_single

    def _after(self, answers: tuple[bool, ...]) -> list[tensor]:
        """What the function returns if its first questions have *answers*: of all further answers together."""
        self._n_calls += 1
        self._check(self._n_calls)
        asked: list[tensor] = []

        def answer(question: tensor) -> bool:
            asked.append(question)
            self._check(len(asked))
            return answers[len(asked) - 1] if len(asked) <= len(answers) else True

        with answering(answer):
            given = self._function(*self._blocks)
        self._is_single = not isinstance(given, (tuple, list))
        found = [as_tensor(each) for each in ((given,) if self._is_single else given)]
        for at in reversed(range(len(answers), len(asked))):
            others = self._after((*answers, *(True,) * (at - len(answers)), False))
            if len(others) != len(found):
                refuse(f"a function of tl.map_elementwise with {len(found)} results or {len(others)}", "as many")
            found = [where(asked[at], one, other) for one, other in zip(found, others, strict=True)]
        return found

    def _check(self, n_ways: int) -> None:
        if n_ways > MOST_WAYS:
            refuse(f"a function of tl.map_elementwise with over {MOST_WAYS} ways through its branches",
                   "fewer branches, and loops whose turns no element decides")  # fmt: skip
