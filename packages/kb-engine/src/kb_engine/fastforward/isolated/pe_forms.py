"""Forms of plans, PEs and paths to memories. The times of an isolated command follow from these forms.

Design: docs/design/isolated-commands.md
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.json import encode

from kb_engine.block.component import ComponentBase
from kb_engine.block.control_roles import HostPort
from kb_engine.block.fabric_roles import Initiator, MemoryComponent, TransferSource
from kb_engine.block.gates import ExclusivePort
from kb_engine.block.register_file import RegisterFile, RegisterFileOwner
from kb_engine.block.stage_server import StageServer
from kb_engine.fabric.paths import Leg, MemoryPath
from kb_engine.fastforward.refusals import COMBINES, IN_PIECES
from kb_engine.observe.slow_path import SkipRefusal
from kb_messages import OperandTemplate, PipelinePlan, Place, StageTemplate, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)
_HELD: Final = SkipRefusal(
    "the command goes on with a sum that lies in registers", "have one command compute the whole sum"
)
_CONSTANT: Final = SkipRefusal("the command stores a constant", "store a value that the kernel loads or computes")


class PlanForm:
    """The properties that plans of one form share. *number* is the number of the form.

    `transfers` has, for each transfer in the order of the stages, the index of its operand among the addresses of a
    plan. `writes` has the number of each write among the transfers, and its index.
    """

    def __init__(self, plan: PipelinePlan, number: int) -> None:
        self.number = number
        self.transfers = tuple([at for _, at in plan.transfers])
        stages = [plan.stages[number] for number, _ in plan.transfers]
        numbers = [number for number, stage in enumerate(stages) if stage.stage_type is StageType.DMA_WRITE]
        self.writes = tuple([(number, self.transfers[number]) for number in numbers])


def is_transfer(stage: StageTemplate) -> bool:
    """Whether *stage* reads or writes a memory."""
    return stage.stage_type in _TRANSFERS


def why_out_of_reach(plan: PipelinePlan) -> SkipRefusal | None:
    """Returns why the times of *plan* do not follow from its form, or None if they do."""
    if plan.held is not None:
        return _HELD
    for stage in plan.stages:
        if not is_transfer(stage):
            continue
        if stage.in_pieces:
            return IN_PIECES
        if stage.math is not None:
            return COMBINES
        if memory_side(stage).place is not Place.MEMORY:
            return _CONSTANT
    return None


def form_of(plan: PipelinePlan) -> Hashable:
    """Returns the form of *plan*. Plans of one form take equal times on equal blocks and memories."""
    return (
        plan.grid,
        plan.loop_order,
        plan.buffers,
        tuple(
            [
                (
                    stage.stage_type,
                    stage.component.rpartition(".")[2],
                    stage.when,
                    stage.math,
                    stage.gemm,
                    tuple(map(_form_of_operand, stage.operands)),
                )
                for stage in plan.stages
            ]
        ),
    )


def numbered(owners: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the different *owners* in order, and the index there of each of *owners*."""
    if owners and owners.count(owners[0]) == len(owners):
        return (owners[0],), (0,) * len(owners)
    numbers: dict[int, int] = {}
    places = tuple([numbers.setdefault(owner, len(numbers)) for owner in owners])
    return tuple(numbers), places


def _form_of_operand(operand: OperandTemplate) -> Hashable:
    base = 0 if operand.place in (Place.MEMORY, Place.IMMEDIATE) else operand.base
    return (
        operand.role, operand.place, operand.rows, operand.cols, operand.stride, operand.dtype, operand.release,
        operand.when, base,
    )  # fmt: skip


def form_of_pe(blocks: Sequence[ComponentBase[Any]]) -> Hashable | None:
    """Returns the form of the PE of *blocks*, or None. Blocks of PEs of one form take equal times.

    A block states that its times follow from the form by a pure cost, or, for a DMA, by `needs_no_queue`. It keeps its
    tokens in plain queues, behind ports that one service holds at a time.
    """
    return None if any(map(_may_depend_on_more, blocks)) else tuple(map(_form_of_block, blocks))


def why_no_form(blocks: Sequence[ComponentBase[Any]]) -> SkipRefusal:
    """Returns the reason why *blocks* have no form."""
    block = next(filter(_may_depend_on_more, blocks))
    cause = f"the block {block.node_id} is of the class {type(block).__name__}, whose times may follow from more than"
    return SkipRefusal(f"{cause} the command", "give the class a pure cost, plain queues and plain registers")


def _may_depend_on_more(block: ComponentBase[Any]) -> bool:
    if not all(map(_is_plain, block.servers.values())):
        return True
    if isinstance(block, RegisterFileOwner) and type(block.registers) is not RegisterFile:
        return True
    return bool(block.servers) and not (block.has_pure_cost or needs_no_queue(block))


def form_of_path(path: MemoryPath) -> Hashable | None:
    """Returns the form of *path*, or None for a memory without `free_times`. Transfers on paths of one form take
    equal times."""
    memory = path.memory
    if not states_free_times(memory):
        return None
    legs = (path.away,) if path.back is path.away else (path.away, path.back)
    return type(memory), _figures(memory.spec), path.nearest_ps, tuple(map(_form_of_leg, legs))


def states_free_times(memory: MemoryComponent[Any]) -> bool:
    """Whether the class of *memory* itself, and not a base, names in `free_times` all times that requests depend on."""
    return "free_times" in vars(type(memory))


def needs_no_queue(block: ComponentBase[Any]) -> bool:
    """Whether *block* starts transfers that depend on their token, the time and the fabric alone."""
    return isinstance(block, Initiator) and bool(vars(type(block)).get("needs_no_queue", False))


def all_sources_belong_to_pes(blocks: Sequence[ComponentBase[Any]]) -> bool:
    """Whether, while kernels run, no block of *blocks* begins a transfer but in an entry of its own PE."""
    sources = [block for block in blocks if isinstance(block, TransferSource)]
    return all(isinstance(block, HostPort) or needs_no_queue(block) for block in sources)


def _form_of_block(block: ComponentBase[Any]) -> Hashable:
    return block.node_id.rpartition(".")[2], type(block), _figures(block.spec), block.context.memory_nbytes


def _figures(spec: Struct) -> bytes:
    """Returns the fields of *spec* as bytes, because some may be mutable."""
    return encode(spec)


def _is_plain(server: StageServer) -> bool:
    return type(server) is StageServer and all(type(gate) is ExclusivePort for gate in server.own_gates)


def _form_of_leg(leg: Leg) -> Hashable:
    """Returns the form of *leg*. Links of one bandwidth have one rate, which is hashed faster than the fraction."""
    return tuple([(hop.state.rate, hop.after_ps, hop.shared is not None, hop.narrows) for hop in leg.hops])
