"""PE_DMA: moves rectangles between memories and TCM, and from memories to the register file if wired to PE_GEMM.

It has one channel for reads and one for writes, which work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct

from kb_components.cost_fields import clock_ghz, places, time_ns
from kb_engine.block import (
    DEADLINE,
    PART,
    TOKEN,
    AddressTranslator,
    Context,
    Initiator,
    State,
    Stateful,
    TileToken,
    each,
    exact,
    ps_from_ns,
)
from kb_messages import (
    OFFSET_BITS,
    DmaParams,
    Matrix,
    PipelinePlan,
    PlanError,
    Rectangle,
    StageParams,
    StageType,
    TopologyError,
)

_DMA_WRITE: Final = StageType.DMA_WRITE  # Python 3.11 looks a member of an enumeration up by a call
_TRANSFER: Final = ("pe_dma", "links", "hbm", "sram", "pe_tcm")
_SETUP: Final = ("pe_dma: setup", "pe_dma: service")


class PeDmaSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`setup_ns`: how long a transfer holds its channel before the request leaves. Source: assumed, unless stated.

    `write_setup_ns`: the same for writes, where they differ.

    `outstanding`: how many reads may be under way at once, and how many writes. Set-ups of one channel do not overlap:
    a transfer's set-up, and the lookups of its pages after it, end before the next set-up begins.

    `piece_ns`: the time that each piece after the first adds to the set-up of a transfer in pieces. `max_pieces`: the
    most pieces of a transfer; a kernel's access of more pieces becomes several transfers. Source of both: assumed (a
    descriptor every 4 cycles of 1 GHz, and a list of 256 of them).

    `answers`: whether a transfer may end before an earlier transfer of its channel. With `in_order`, the rule of one
    AXI ID, an early answer waits for the answers before it.

    `port_nbytes`: the bytes that the block sends in a cycle of `port_clock_ghz`, over all its links together, and the
    bytes that it receives in a cycle. Without these attributes, the links alone bound its data.
    """

    setup_ns: Annotated[float, time_ns(_SETUP, "set-up time")] = 0.0
    write_setup_ns: Annotated[float, time_ns(_SETUP, "set-up time of writes")] | None = None
    piece_ns: Annotated[float, time_ns(_SETUP, "time of a piece")] = 4.0
    max_pieces: Annotated[int, Meta(ge=1)] = 256
    outstanding: Annotated[int, places(_TRANSFER, "transfer under way", "throughput")] = 1
    answers: Literal["any_order", "in_order"] = "any_order"
    port_nbytes: Annotated[int, Meta(ge=1)] | None = None
    port_clock_ghz: Annotated[float, clock_ghz(("links: bytes", "pe_dma: service"), "clock of the port")] | None = None
    queue_depth: Annotated[int, Meta(ge=1)] = 2


class PeDma(Initiator[PeDmaSpec]):
    """Serves `outstanding` transfers at a time on each channel.

    Tiles leave a channel in the order in which they came.

    A service lasts from set-up to the last byte (read) or the acknowledgement (write). An atomic is a write whose bytes
    the memory reads first: `latency + bytes` of a read, and then `bytes` and `latency` of a write. Source: assumed; a
    controller with an adder beside it, which takes no time of its own.

    Where a wire leads to a PE_MMU, a transfer at virtual addresses waits for its pages' lookups after the set-up.

    A transfer in pieces is one request. A transfer of constants alone sends no request. Each run of a piece counts in
    whole bursts of the memory, on the links and in the memory.
    """

    spec_type = PeDmaSpec
    serves = (StageType.DMA_READ, StageType.DMA_WRITE)
    needs_no_queue = True
    checks_by_form = True
    state: ClassVar[State] = {"_issued_ps": DEADLINE, "_order": each(PART)}
    __slots__ = (*state, "_fabric", "_last_owner", "_last_path", "_mmu", "_paths", "_piece_ps", "_setups_ps")
    caches = ("_last_owner", "_last_path", "_paths")

    def __init__(self, spec: PeDmaSpec, context: Context) -> None:
        super().__init__(spec, context)
        write_ns = spec.setup_ns if spec.write_setup_ns is None else spec.write_setup_ns
        self._setups_ps = ps_from_ns(spec.setup_ns), ps_from_ns(write_ns)
        self._piece_ps = ps_from_ns(spec.piece_ns)
        if (spec.port_nbytes is None) != (spec.port_clock_ghz is None):
            given, other = ("port_nbytes", "port_clock_ghz")[:: 1 if spec.port_clock_ghz is None else -1]
            raise TopologyError(f"{self.node_id}.{given}", f"no {other}", "both, or neither")
        self._issued_ps = 0
        in_order = spec.answers == "in_order" and spec.outstanding > 1
        self._order = (AnswerOrder(), AnswerOrder()) if in_order else None
        self._mmu: AddressTranslator[Any] | None = None
        self._paths: dict[int, Any] = {}
        self._last_owner = -1
        self._last_path: Any
        self._fabric = context.fabric

    @property
    def lead_ps(self) -> int:
        """Picoseconds before a request leaves, at least: the shorter of the two set-ups."""
        return min(self._setups_ps)

    @property
    def outstanding(self) -> int:
        """The number of transfers of one channel that may be under way, from the Spec."""
        return self.spec.outstanding

    @property
    def port_gbs(self) -> Fraction | None:
        """The bandwidth of the port in GB/s: bytes of a cycle times the clock. None without a port."""
        if self.spec.port_nbytes is None or self.spec.port_clock_ghz is None:
            return None
        return self.spec.port_nbytes * exact(self.spec.port_clock_ghz)

    @property
    def max_pieces(self) -> int:
        """The most pieces of a transfer, from the Spec."""
        return self.spec.max_pieces

    def issued_ps(self, stage_type: StageType) -> int:
        """The time at which the last transfer's set-up and lookups end."""
        return self._issued_ps

    def connect(self) -> None:
        """Finds the MMU, if there is one."""
        found = [block for block in self.context.downstream if isinstance(block, AddressTranslator)]
        self._mmu = found[0] if found else None

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raises PlanError for a memory without links to it or back, and for reads into registers without a wire.

        Operands at address 0 have no memory yet (`kb plan`), and pass the check.
        """
        self.check_addresses(plan)
        if plan.reads_to_registers:
            self._check_streams(plan)

    def check_addresses(self, plan: PipelinePlan) -> None:
        """Raises PlanError for a memory without links to it or back."""
        stages, addresses = plan.stages, plan.addresses
        for number, at in plan.transfers:
            if stages[number].component == self.node_id:
                owner = addresses[at] >> OFFSET_BITS
                if owner and owner not in self._paths:
                    self._check_reaches(owner)

    def _check_streams(self, plan: PipelinePlan) -> None:
        wired = {block.node_id for block in self.context.downstream}
        for stage in plan.stages:
            if stage.stage_type is StageType.GEMM and stage.component not in wired:
                raise PlanError(
                    self.node_id,
                    f"a GEMM whose b streams to {stage.component}",
                    "a wire to it",
                    "add `pe_dma -> pe_gemm` to the wires of pe_template, or leave out b_stream",
                )

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Sends the request of *token* over the fabric, which chooses the way."""
        stage = token.stages[token.index]
        params: Any = stage.params  # DmaParams, by its stage type
        memory: Rectangle = params.memory
        owner = memory.base >> OFFSET_BITS
        if owner != self._last_owner:
            # Constants lie at address 0, whose owner is never the owner of the last transfer.
            if params.constants:
                self._fill(token, finish)
                return
            self._last_owner, self._last_path = owner, self._paths.get(owner) or self._find_path(owner)
        is_write = stage.stage_type is _DMA_WRITE
        start_ps = self.clock.now_ps + self._setups_ps[is_write]
        if params.pieces:
            memory = self._fabric.counted(self._last_path, params.pieces)
            start_ps += (len(params.pieces) - 1) * self._piece_ps + self._lookups_ps(token, params.pieces)
        elif self._mmu is not None:
            for matrix in token.context.mapped:
                if matrix.address <= memory.base < matrix.address + matrix.span_nbytes:
                    start_ps += self._mmu.lookup_ps(_at_virtual(memory, matrix))
                    break
        self._issued_ps = start_ps
        if self._order is not None:
            finish = self._order[is_write].begins(token, finish)
        if is_write:
            self._fabric.write(self._last_path, memory, start_ps, finish, token, params.atomic)
        else:
            self._fabric.read(self._last_path, memory, start_ps, finish, token)

    def _fill(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Serves a transfer of constants alone. The constants came with the command, so only the set-up takes time."""
        write = token.stages[token.index].stage_type is StageType.DMA_WRITE
        self._issued_ps = self.clock.now_ps + self._setups_ps[write]
        if self._order is not None:
            finish = self._order[write].begins(token, finish)
        self.clock.call_at(self._issued_ps, finish, token, self.event_order)

    def alone_ps(self, stage_type: StageType, params: StageParams) -> tuple[int, int, int]:
        """Returns (time of a transfer that runs alone, time for which it holds its channel, time of its bytes at the
        memory).

        Lookups of pages are left out, and transfers that are under way together share their time. A transfer of an
        operand at address 0, which has no memory yet, takes its set-up alone. Raises PlanError for a memory without
        links to it or back.
        """
        assert isinstance(params, DmaParams)
        owner = params.memory.base >> OFFSET_BITS
        write = stage_type is StageType.DMA_WRITE
        setup_ps = self._setups_ps[write]
        if not owner:
            return setup_ps, setup_ps, 0
        if owner not in self._paths:
            self._check_reaches(owner)
        path, memory, n_more = self._paths[owner], params.memory, max(0, len(params.pieces) - 1)
        if params.pieces:
            memory = self._fabric.counted(path, params.pieces)
        transfer_ps, memory_ps = self._fabric.alone_ps(path, memory, write)
        alone_ps = setup_ps + n_more * self._piece_ps + transfer_ps
        # With several transfers under way, the channel takes the next one before this one has ended.
        return alone_ps, max(memory_ps, -(-alone_ps // self.outstanding)), memory_ps

    def least_ps(self, stage_type: StageType, params: StageParams) -> Fraction | None:
        """The set-up of a transfer, with its further pieces: the time for which it keeps the next one from beginning.

        The bytes count for the links and the memory.
        """
        assert isinstance(params, DmaParams)
        n_more = max(0, len(params.pieces) - 1)
        return Fraction(self._setups_ps[stage_type is _DMA_WRITE] + n_more * self._piece_ps)

    def _lookups_ps(self, token: TileToken, pieces: tuple[Rectangle, ...]) -> int:
        """The time of the lookups of the pages of *pieces*; 0 if they are not at virtual addresses."""
        mmu, mapped = self._mmu, token.context.mapped
        if mmu is None or not mapped:
            return 0
        return sum(mmu.lookup_ps(_at_virtual(*each)) for each in zip(pieces, mapped, strict=True))

    def _find_path(self, owner: int) -> Any:
        path = self._fabric.path(self.node_id, owner)
        self._paths[owner] = path
        return path

    def _check_reaches(self, owner: int) -> None:
        try:
            self._find_path(owner)
        except TopologyError as error:
            fix = f"add such a link to `cube.links`; {error.fix}" if error.fix else ""
            raise PlanError(error.where, error.got, error.needs, fix) from None


def _at_virtual(memory: Rectangle, matrix: Matrix) -> Rectangle:
    """The part *memory* of *matrix*, moved to the virtual address that the kernel used."""
    assert matrix.virtual is not None
    return Rectangle(memory.base - matrix.address + matrix.virtual, memory.rows, memory.row_nbytes, memory.stride)


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
