"""AnswerOrder: lets the transfers of one channel end in the order in which they began."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from kb_engine.block import TOKEN, State, Stateful, TileToken, each


class AnswerOrder(Stateful):
    """The transfers of one channel that have not ended.

    An early answer ends its transfer when all before it have ended.
    """

    __slots__ = ("_answered", "_finish", "_under_way")
    state: ClassVar[State] = {"_under_way": each(TOKEN), "_answered": each(TOKEN)}

    def __init__(self) -> None:
        self._under_way: list[TileToken] = []
        self._answered: list[TileToken] = []
        self._finish: Callable[[TileToken], None]

    def begins(self, token: TileToken, finish: Callable[[TileToken], None]) -> Callable[[TileToken], None]:
        """Notes that the transfer of *token* begins. Returns the function to call with the answer.

        That function calls *finish* for each transfer in its turn.
        """
        self._under_way.append(token)
        self._finish = finish
        return self._answer

    def _answer(self, token: TileToken) -> None:
        under_way, answered = self._under_way, self._answered
        answered.append(token)
        while under_way and under_way[0] in answered:
            first = under_way.pop(0)
            answered.remove(first)
            self._finish(first)
