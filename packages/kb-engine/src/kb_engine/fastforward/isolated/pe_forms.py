"""The forms of PEs and of ways to memories: what the times of commands follow from besides their plans."""

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
from kb_engine.observe.slow_path import SkipRefusal
from kb_messages import OperandTemplate, PipelinePlan, Place, StageTemplate, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)
_HELD: Final = SkipRefusal(
    "the command goes on with a sum that lies in registers", "have one command compute the whole sum"
)
_PIECES: Final = SkipRefusal(
    "the command moves its rows in pieces", "load and store blocks whose rows lie behind each other"
)
_COMBINES: Final = SkipRefusal(
    "the command combines what it stores with what is there", "add up in TCM, and store once"
)
_CONSTANT: Final = SkipRefusal("the command stores a constant", "store what the kernel loads or computes")


class PlanForm:
    """What plans of one form have in common; *number* stands for that, as `form_of` gives it.

    `transfers` has the place among the addresses of a plan of what each transfer reads or writes, in the order of the
    stages. `writes` has the number of each write among the transfers, and its place.
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
    """Why the times of *plan* do not follow from its form; None if they do."""
    if plan.held is not None:
        return _HELD
    for stage in plan.stages:
        if not is_transfer(stage):
            continue
        if stage.in_pieces:
            return _PIECES
        if stage.math is not None:
            return _COMBINES
        if memory_side(stage).place is not Place.MEMORY:
            return _CONSTANT
    return None


def form_of(plan: PipelinePlan) -> Hashable:
    """What plans have in common that take equal times on equal blocks and memories, but for where transfers go."""
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
    """Each of *owners* once, in their order; and for each of *owners* its place there."""
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
    """What PEs have in common whose blocks take equal times; None where times may follow from more than that.

    A block has to say what its times follow from: by a pure cost, or, for a DMA, by `needs_no_queue`. It keeps its
    tokens in plain queues, behind ports that one service holds at a time.
    """
    return None if any(map(_says_too_little, blocks)) else tuple(map(_form_of_block, blocks))


def why_no_form(blocks: Sequence[ComponentBase[Any]]) -> SkipRefusal:
    """Why *blocks* have no form."""
    block = next(filter(_says_too_little, blocks))
    cause = f"the block {block.node_id} is of the class {type(block).__name__}, whose times may follow from more than"
    return SkipRefusal(f"{cause} the command", "give the class a pure cost, plain queues and plain registers")


def _says_too_little(block: ComponentBase[Any]) -> bool:
    if not all(map(_is_plain, block.servers.values())):
        return True
    if isinstance(block, RegisterFileOwner) and type(block.registers) is not RegisterFile:
        return True
    return bool(block.servers) and not (block.has_pure_cost or needs_no_queue(block))


def form_of_way(path: MemoryPath) -> Hashable | None:
    """What ways have in common on which transfers take equal times; None for a memory that does not say as much."""
    memory = path.memory
    if not says_when_free(memory):
        return None
    legs = (path.away,) if path.back is path.away else (path.away, path.back)
    return type(memory), _figures(memory.spec), path.nearest_ps, tuple(map(_form_of_leg, legs))


def says_when_free(memory: MemoryComponent[Any]) -> bool:
    """Whether the class of *memory* itself says by which of its times it is free; nothing else counts for requests."""
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
    """The fields of *spec*, of which some may be mutable."""
    return encode(spec)


def _is_plain(server: StageServer) -> bool:
    return type(server) is StageServer and all(type(gate) is ExclusivePort for gate in server.own_gates)


def _form_of_leg(leg: Leg) -> Hashable:
    """A rate stands for its bandwidth, because links of one bandwidth have one rate, and hashing a fraction is slow."""
    return tuple([(hop.state.rate, hop.after_ps, hop.shared is not None, hop.narrows) for hop in leg.hops])
