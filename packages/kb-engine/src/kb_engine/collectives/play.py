"""Player: plays the acts of a rank in a kernel, on values in TCM and on tensors in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from kb_engine.collectives.acts import Act, ActKind
from kb_engine.collectives.group import Group
from kb_engine.collectives.sizes import Sizes
from kb_engine.program.values.handles import Handle, ValuePart
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_engine.sync.channel import SLOT_NBYTES
from kb_messages import VIRTUAL_END, KernelError

Operand: TypeAlias = "Handle | TensorRef"

COMBINES: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "sum": lambda tl, x, y: x + y,
    "mean": lambda tl, x, y: x + y,
    "max": lambda tl, x, y: tl.maximum(x, y),
    "min": lambda tl, x, y: tl.minimum(x, y),
}
"""The functions of two values by which collectives combine, by name. A mean is divided where its sum is rounded."""


class Player:
    """One rank of *group* in a collective named *call* of elements of *sizes*.

    Element e of the group's result is element `e - x_first` of *x*, the rank's own elements, and `e - out_first` of
    *out*. Without *out*, the rank's result is kept in TCM: `result` has it.
    """

    def __init__(
        self, tl: Any, group: Group, call: str, sizes: Sizes, x: Operand, out: TensorRef | None, firsts: tuple[int, int]
    ) -> None:
        self._tl = tl
        self._group = group
        self._call = call
        self._sizes = sizes
        self._own = x.ravel() if isinstance(x, Handle) else flat(tl, x, call)
        self._out = None if out is None else flat(tl, out, call)
        self._x_first, self._out_first = firsts
        self._contents: dict[tuple[int, int], Any] = {}
        self._lent: set[tuple[int, int]] = set()
        self._done: list[tuple[int, Any]] = []
        self._stores: list[Any] = []
        self._plays: dict[ActKind, Callable[[Act], None]] = {
            ActKind.LOAD: self._load,
            ActKind.SEND: self._send,
            ActKind.REDUCE: self._reduce,
            ActKind.TAKE: self._take,
            ActKind.KEEP: self._keep,
            ActKind.JOIN: self._join,
            ActKind.DONE: self._finish,
        }

    def play(self, acts: Iterable[Act]) -> Any:
        """Plays *acts*, and returns the rank's result as a vector in TCM; None where it was stored or is empty."""
        for act in acts:
            self._plays[act.kind](act)
        for store in self._stores:
            self._tl.wait(store)
        if not self._done:
            return None
        return self._joined([value for _, value in sorted(self._done, key=lambda each: each[0])])

    def _load(self, act: Act) -> None:
        start, stop = act.start - self._x_first, act.stop - self._x_first
        own = self._own
        value = ValuePart(own, start, stop) if isinstance(own, Handle) else self._tl.load_async(own[start:stop])
        self._contents[act.start, act.stop] = value

    def _send(self, act: Act) -> None:
        value = self._content(act.start, act.stop)
        if act.is_last:
            self._contents.pop((act.start, act.stop), None)
        self._tl.send(value, self._group.members[act.peer], self._tag(act))

    def _reduce(self, act: Act) -> None:
        own = self._content(act.start, act.stop)
        self._contents.pop((act.start, act.stop), None)
        tl, sizes = self._tl, self._sizes
        came = tl.recv(self._group.members[act.peer], self._tag(act))
        total = COMBINES[sizes.op](tl, *(as_dtype(each, sizes.wide) for each in (came, own)))
        if act.is_last and sizes.op == "mean":
            total = total * (1.0 / len(self._group))
        if act.is_last:
            total = as_dtype(total, sizes.dtype)
        tl.wait(total)
        self._contents[act.start, act.stop] = total

    def _take(self, act: Act) -> None:
        key = act.start, act.stop
        self._contents[key] = self._tl.recv(self._group.members[act.peer], self._tag(act))
        self._lent.add(key)

    def _keep(self, act: Act) -> None:
        key = act.start, act.stop
        value = self._contents[key]
        copied = value.to(value.dtype)
        self._tl.wait(copied)
        self._contents[key] = copied
        self._lent.discard(key)

    def _join(self, act: Act) -> None:
        inside = [key for key in self._contents if act.start <= key[0] and key[1] <= act.stop]
        parts = sorted(key for key in inside if key != (act.start, act.stop))
        if parts:
            self._contents[act.start, act.stop] = self._joined([self._contents.pop(key) for key in parts])

    def _finish(self, act: Act) -> None:
        key = act.start, act.stop
        if self._out is not None:
            value = self._contents.pop(key)
            place = self._out[act.start - self._out_first : act.stop - self._out_first]
            self._stores.append(self._tl.store_async(place, value))
            self._lent.discard(key)
            return
        if key in self._lent:
            self._keep(act)
        self._done.append((act.start, self._contents.pop(key)))

    def _content(self, start: int, stop: int) -> Any:
        """The present value of elements *start* to *stop*, which may be a part of a value."""
        found = self._contents.get((start, stop))
        if found is not None:
            return found
        first, end = next(key for key in self._contents if key[0] <= start and stop <= key[1])
        return ValuePart(self._contents[first, end], start - first, stop - first)

    def _joined(self, values: list[Any]) -> Any:
        """*values*, vectors, one behind the other in one value."""
        tl = self._tl
        while len(values) > 1:
            pairs = [tl.cat(*values[at : at + 2]) for at in range(0, len(values) - 1, 2)]
            values = pairs + values[2 * len(pairs) :]
        tl.wait(values[0])
        return values[0]

    def _tag(self, act: Act) -> tuple[str, int]:
        """The tag of a message: the collective, and the bytes of the slot. So all messages of a tag fit its slots."""
        dtype = self._sizes.wide if act.is_wide else self._sizes.dtype
        return self._call, -(-act.size * dtype.nbytes // SLOT_NBYTES) * SLOT_NBYTES


def line_of(tl: Any) -> str:
    """The line of the kernel of *tl* that called a collective."""
    return str(tl._port.line())


def as_dtype(value: Any, dtype: Any) -> Any:
    """*value* as *dtype*, without a conversion where it has that dtype."""
    return value if value.dtype is dtype else value.to(dtype)


def flat(tl: Any, ref: TensorRef, call: str) -> TensorRef:
    """The elements of *ref* as a vector. Raises KernelError unless they lie one behind the other in memory."""
    matrix = ref.matrix(tl._port.pe_id)
    rows, cols = plain(matrix.rows), plain(matrix.cols)
    if rows > 1 and matrix.stride != cols * matrix.dtype.nbytes:
        needs = "elements that lie one behind the other in memory, such as whole rows"
        raise KernelError(line_of(tl), f"{call} of {ref}", needs, "tl.load it, and pass the value")
    address = ((plain(matrix.address),),)
    whole = Tensor(
        name=ref.tensor.name,
        shape=(rows * cols,),
        dtype=matrix.dtype,
        row_bounds=(0, 1),
        col_bounds=(0, rows * cols),
        addresses=address,
        virtual=(address,) if matrix.address >= VIRTUAL_END else (),
        read_only=ref.tensor.read_only,
    )
    return whole.ref
