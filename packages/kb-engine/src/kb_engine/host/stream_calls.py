"""Calls of the host that use streams: streams, events and copies, and the transfers of tensors.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy.typing as npt

from kb_engine.engine.engine import Engine
from kb_engine.engine.streams.engine_streams import NO_STREAM, Piece, StreamPlace
from kb_engine.host.read import DeferredRead, read_tensor
from kb_engine.host.streams import Event, Pending, Stream, stream_of
from kb_engine.host.tensor_memory import TensorMemory
from kb_engine.launch.streams import StreamCall
from kb_engine.program.author.author_errors import calling_line
from kb_engine.program.values.tensors import Tensor
from kb_messages import HostCallKind, KernelError

Elements: TypeAlias = "npt.NDArray[Any] | DeferredRead"


class StreamCalls:
    """Streams of a host. Calls without a stream wait for all calls of streams, and for their own answer."""

    engine: Engine
    _root: Path
    _tensors: TensorMemory

    @abstractmethod
    def synchronize(self) -> None:
        """Waits until all calls of all streams have ended."""

    @abstractmethod
    def _wait_for(self, call: StreamCall | None = None) -> None:
        """Waits until *call* has ended, or, without it, until all calls of streams have."""

    def stream(self) -> Stream:
        """A new stream: its calls take effect one after the other, while the host's Python runs ahead."""
        return Stream(self.engine, self._root)

    def event(self) -> Event:
        """A new event that no call has recorded. `Stream.record` returns one that a call records."""
        return Event(self.engine, self.engine.streams.new_event(calling_line(self._root) or "?:0"))

    @overload
    def copy(self, dst: Tensor, src: Tensor, *, stream: None = None) -> None: ...
    @overload
    def copy(self, dst: Tensor, src: Tensor, *, stream: Stream) -> Pending[None]: ...
    def copy(self, dst: Tensor, src: Tensor, *, stream: Stream | None = None) -> Pending[None] | None:
        """Copies the elements of *src* to every copy of *dst*, which has the same shape and dtype.

        The host's DMA does it, as the one engine of the chip that reaches all memories and belongs to no PE: a channel
        reads a block whole and then writes it, over the host's bus both times. So n bytes take about as long as a read
        and a write of n bytes, and channels work at the same time. A kernel copies faster within a SIP, and takes PEs.
        Without a host a copy takes no time. Of a sharded *src* the first copy is read.

        All bytes change when the copy begins. Raises KernelError for tensors of other shapes or dtypes, and for one
        tensor twice.
        """
        for tensor in (dst, src):
            self._tensors.check_live("copy", tensor)
        what = f"copy of {src.name} to {dst.name}"
        mine, others = ((each.dtype, each.shape) for each in (src, dst))
        if mine != others:
            raise KernelError(what, f"{mine[0]} of shape {mine[1]}", f"{others[0]} of shape {others[1]}")
        if dst.addresses == src.addresses:
            raise KernelError(what, "one tensor as source and target", "two tensors")
        pieces = [Piece(*each) for each in _common_blocks(src, dst)]
        if stream is not None:
            return self._moved(stream, HostCallKind.COPY, pieces)
        self.synchronize()
        self.engine.move_in(StreamPlace(NO_STREAM, calling_line(self._root) or "?:0"), HostCallKind.COPY, pieces)
        self.synchronize()
        return None

    def _moved(self, stream: object, kind: HostCallKind, pieces: list[Piece]) -> Pending[None]:
        what = kind.name.lower()
        place = stream_of(stream, what, self._root).place(self.engine, what)
        return Pending(self.engine.move_in(place, kind, pieces), self._wait_for, lambda: None)

    def _read_in(self, stream: Stream, tensor: Tensor) -> Pending[Elements]:
        """Reads *tensor* in *stream*. The result has the elements at the begin of the transfer."""
        blocks = [matrix for _, matrix in tensor.every_block()]
        found: list[Elements] = []

        def begun() -> None:
            found.append(self._elements(tensor, lasting=True))

        place = stream_of(stream, "read", self._root).place(self.engine, "read")
        pieces = [Piece(matrix, None) for matrix in blocks]
        call = self.engine.move_in(place, HostCallKind.READ, pieces, begun)
        return Pending(call, self._wait_for, lambda: found[0])

    def _elements(self, tensor: Tensor, lasting: bool = False) -> Elements:
        """The elements of *tensor* now, or a DeferredRead where pass 2 computes some. *lasting* elements are a copy."""
        memory = self.engine.memory
        for _, matrix in tensor.every_block():
            producer = memory.pending.producer(matrix)
            if producer is not None:
                return DeferredRead(tensor, producer)
        elements = read_tensor(memory.store, tensor)
        return elements.copy() if lasting else elements


def _common_blocks(src: Tensor, dst: Tensor) -> Iterator[tuple[Any, Any]]:
    """Yields the parts of the blocks of *dst*, of all copies, each with the part of the first copy of *src*."""
    sources = src.blocks(0)
    for target_at, target in dst.every_block():
        for source_at, source in sources:
            rows, cols = (
                range(max(one.start, two.start), min(one.stop, two.stop))
                for one, two in zip(target_at, source_at, strict=True)
            )
            if rows and cols:
                yield (
                    source.part(rows.start - source_at[0].start, cols.start - source_at[1].start, len(rows), len(cols)),
                    target.part(rows.start - target_at[0].start, cols.start - target_at[1].start, len(rows), len(cols)),
                )
