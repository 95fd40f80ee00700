"""TilePath: the blocks, queues and memory paths that the tiles of one command pass.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import Scratchpad
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.pe_roles import CommandScheduler
from kb_engine.block.register_file import RegisterFileOwner
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.paths import MemoryPath
from kb_engine.fabric.sharing.stream import Stream
from kb_engine.fabric.transfer import Transfer
from kb_engine.fastforward.refusals import COMBINES, IN_PIECES, SPREAD, VIRTUAL
from kb_engine.fastforward.steady_state.state_snapshot import arguments_of, visit_servers
from kb_engine.observe.slow_path import SkipRefusal
from kb_messages import OFFSET_BITS, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)


class TilePath(NamedTuple):
    """The blocks, queues and memory paths of one command. Blocks come after the transfers and tokens that they hold."""

    command: CommandInFlight
    blocks: Sequence[ComponentBase[Any]]
    servers: Sequence[StageServer]
    paths: Sequence[MemoryPath]

    @property
    def burst_nbytes(self) -> int:
        """A number of bytes that holds whole bursts of every memory."""
        found = 1
        for path in self.paths:
            found *= path.burst_nbytes
        return found

    def visit(self, over: StateVisitor, entries: Sequence[Any]) -> None:
        """Hands the whole state to *over*, scheduled entries first. Raises NotPeriodic for a part without a snapshot
        now."""
        for argument in arguments_of(over, entries):
            if type(argument) is TileToken:
                over.token(argument)
            elif type(argument) is Transfer or type(argument) is Stream:
                over.part(argument)
            else:
                raise NotPeriodic
        over.part(self.command)
        visit_servers(over, self.servers)
        for block in self.blocks:
            over.part(block)
        for path in self.paths:
            over.part(path)


def tile_path_of(
    command: CommandInFlight,
    components: Mapping[str, ComponentBase[Any]],
    pe: Sequence[ComponentBase[Any]],
    fabric: Fabric,
) -> TilePath | SkipRefusal:
    """Returns the path of *command* on the blocks *pe*, or why its tiles cannot be skipped."""
    plan = command.plan
    if command.mapped:
        return VIRTUAL
    if any(stage.in_pieces for stage in plan.stages):
        return IN_PIECES
    if any(stage.math and stage.stage_type in _TRANSFERS for stage in plan.stages):
        return COMBINES
    serving: dict[str, ComponentBase[Any]] = {}
    servers: dict[int, StageServer] = {}
    paths: dict[int, MemoryPath] = {}
    for stage in plan.stages:
        block = components[stage.component]
        serving[block.node_id] = block
        server = block.servers[stage.stage_type]
        servers[id(server)] = server
        if stage.stage_type in _TRANSFERS:
            path = fabric.path(block.node_id, memory_side(stage).base >> OFFSET_BITS)
            if type(path) is not MemoryPath:
                return SPREAD
            paths[id(path)] = path
    others = [each for each in pe if isinstance(each, (CommandScheduler, RegisterFileOwner, Scratchpad))]
    memories = [path.memory for path in paths.values()]
    blocks = list({id(each): each for each in (*others, *serving.values(), *memories)}.values())
    for block in blocks:
        if not can_visit_state(block):
            return why_no_state(block)
    return TilePath(command, blocks, list(servers.values()), list(paths.values()))


def why_no_state(block: ComponentBase[Any]) -> SkipRefusal:
    """Returns the reason why *block* has no snapshot."""
    cause = f"the block {block.node_id} is of the class {type(block).__name__}, which does not describe its state"
    return SkipRefusal(cause, "give the class a `visit_state`, or a pure cost")
