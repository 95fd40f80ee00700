"""A plain walk over rows, cause after cause as the table of causes says, for logs without the table of transfers.

Nothing here is fast: each question looks through all rows. So it is easy to compare with the table.
"""

from typing import Any, NamedTuple

from kb_dataexec import OpLog

GEMM, MATH, FETCH, STORE, DMA_WRITE = "gemm", "math", "fetch", "store", "dma_write"


class PlainSegment(NamedTuple):
    """What `PathColumns` has of one segment."""

    start_ps: int
    end_ps: int
    pe: str
    line: str
    block: str
    what: str
    via: str
    op_id: int


class PlainOp:
    """A row of `ops`, with texts."""

    def __init__(self, log: OpLog, place: int, row: Any) -> None:
        self.place = place
        self.op_id, self.seq, self.tile = (int(row[name]) for name in ("op_id", "command_seq", "tile_id"))
        self.ready, self.start, self.end, self.out = (
            int(row[f"t_{name}_ps"]) for name in ("ready", "start", "end", "out")
        )
        self.name, self.component, self.line = (log.strings[row[name]] for name in ("name", "component", "line"))
        self.server = self.component, self.name
        self.pe, _, self.block = self.component.rpartition(".")
        self.wait_of = {gate: int(row[f"wait_{gate}_ps"]) for gate in ("compute_slot", "tcm_port", "register_file")}


class PlainWalk:
    """The path of the program in row *kernel* of the table of kernels, latest segment first."""

    def __init__(self, log: OpLog, kernel: int) -> None:
        self.segments: list[PlainSegment] = []
        self.via = ""
        self.log = log
        self.kernel = log.table("kernels")[kernel]
        self.pe = log.strings[self.kernel["pe"]]
        mine = [row for row in log.table("commands") if log.strings[row["pe"]] == self.pe]
        self.commands = {int(row["command_seq"]): row for row in mine}
        all_ops = [PlainOp(log, place, row) for place, row in enumerate(log.ops)]
        self.ops = sorted((op for op in all_ops if op.seq in self.commands), key=lambda op: op.op_id)
        self.dispatches = {int(row["op_id"]): row for row in log.table("dispatches")}
        event = self.kernel_ended
        argument: Any = None
        while event is not None:
            event, argument = event(argument)

    def tile(self, op: PlainOp) -> list[PlainOp]:
        return [each for each in self.ops if (each.seq, each.tile) == (op.seq, op.tile)]

    def next(self, op: PlainOp) -> PlainOp | None:
        return next((each for each in self.tile(op) if each.op_id > op.op_id), None)

    def left(self, server: tuple[str, str], time: int, before: PlainOp, is_ahead: bool = False) -> PlainOp | None:
        """The op whose tile left *server* at *time*, the last that was recorded before *before*, or came before."""
        limit = (self.entered(before) if is_ahead else 0, before.place)
        found = [
            op
            for op in self.ops
            if op.server == server and op.out == time and (self.entered(op) if is_ahead else 0, op.place) < limit
            and ((after := self.next(op)) is None or after.server != op.server)
        ]  # fmt: skip
        return max(found, key=lambda op: op.place, default=None)

    def entered(self, op: PlainOp) -> int:
        """When the tile of *op* came to the queue of *op*."""
        found = op.ready
        for each in reversed([stage for stage in self.tile(op) if stage.op_id <= op.op_id]):
            if each.server != op.server:
                break
            found = each.ready
        return found

    def ended(self, names: tuple[str, ...], time: int) -> PlainOp | None:
        return next((op for op in self.ops if op.name in names and op.end == time and op.end > op.start), None)

    def work(
        self, start: int, end: int, block: str, what: str, seq: int, op_id: int = -1, line: str | None = None
    ) -> None:
        line = self.log.strings[self.commands[seq]["line"]] if line is None else line
        if end > start:
            self.segments.append(PlainSegment(start, end, self.pe, line, block, what, self.via, op_id))

    def goes(self, via: str, event: Any, argument: Any) -> tuple[Any, Any]:
        self.via = via or self.via
        return event, argument

    def kernel_ended(self, _: Any) -> tuple[Any, Any]:
        end = self.kernel["t_end_ps"]
        for row in self.commands.values():
            if row["t_done_ps"] == end and row["t_call_ps"] >= self.kernel["t_start_ps"]:
                return self.goes("end", self.command_done, row)
        assert end == self.kernel["t_start_ps"]
        return None, None

    def command_done(self, row: Any) -> tuple[Any, Any]:
        for op in self.ops:
            if op.seq == row["command_seq"] and op.end == row["t_done_ps"] and self.next(op) is None:
                return self.service_ended, op
        raise AssertionError("nothing completed the command")

    def service_ended(self, op: PlainOp) -> tuple[Any, Any]:
        what = "service" if op.name.startswith("dma_") else op.name
        self.work(op.start, op.end, op.block, what, op.seq, op.op_id, op.line)
        return self.service_started, op

    def tile_left(self, op: PlainOp) -> tuple[Any, Any]:
        if op.out == op.end:
            return self.service_ended, op
        before = self.left(op.server, op.out, op)
        if before is not None and before.op_id < op.op_id:
            return self.goes("transfer_order", self.tile_left, before)
        after = self.next(op)
        assert after is not None
        made_room = self.left(after.server, op.out, op)
        assert made_room is not None
        return self.goes("queue_full", self.tile_left, made_room)

    def service_started(self, op: PlainOp) -> tuple[Any, Any]:
        if op.start == op.ready:
            return self.tile_came, op
        for gate, names in (
            ("compute_slot", (GEMM, MATH)),
            ("tcm_port", (FETCH, STORE)),
            ("register_file", (GEMM, MATH, STORE)),
        ):
            if op.wait_of[gate]:
                opened = self.ended(names, op.start)
                assert opened is not None
                return self.goes(gate, self.service_ended, opened)
        before = self.left(op.server, op.start, op, is_ahead=True)
        if before is not None:
            return self.goes("throughput", self.tile_left, before)
        earlier = [
            each for each in self.ops if each.server == op.server and (each.start, each.op_id) < (op.start, op.op_id)
        ]
        setting_up = max(earlier, key=lambda each: (each.start, each.op_id))
        self.via = "throughput"
        self.work(setting_up.start, op.start, setting_up.block, "service", setting_up.seq, setting_up.op_id)
        return self.service_started, setting_up

    def tile_came(self, op: PlainOp) -> tuple[Any, Any]:
        stages = self.tile(op)
        if op is not stages[0]:
            before = stages[stages.index(op) - 1]
            assert before.out == op.ready
            return self.goes("data", self.tile_left, before)
        command = self.commands[op.seq]
        firsts = [
            each for each in self.ops if each.seq == op.seq and each is self.tile(each)[0] and each.op_id < op.op_id
        ]
        turn = firsts[-1].ready if firsts else int(command["t_fed_ps"])
        row = self.dispatches.get(op.op_id)
        in_order, claimed = (turn, turn) if row is None else (int(row["t_in_order_ps"]), int(row["t_claimed_ps"]))
        if op.ready > claimed:
            made_room = self.left(op.server, op.ready, op)
            assert made_room is not None
            return self.goes("queue_full", self.tile_left, made_room)
        for is_lazy, via, names in (
            (claimed > in_order, "tile_buffer", (FETCH, DMA_WRITE)),
            (in_order > turn, "fetch_order", (FETCH,)),
        ):
            if is_lazy:
                freed = self.ended(names, op.ready) or self.ended((MATH,), op.ready)
                assert freed is not None
                return self.goes(via, self.service_ended, freed)
        assert op.ready == turn
        return (self.tile_came, firsts[-1]) if firsts else (self.command_fed, command)

    def command_fed(self, row: Any) -> tuple[Any, Any]:
        if row["t_fed_ps"] == row["t_decoded_ps"]:
            return self.goes("dispatch", self.command_decoded, row)
        before = self.before(row)
        last = [op for op in self.ops if op.seq == before["command_seq"] and op is self.tile(op)[0]][-1]
        assert last.ready == row["t_fed_ps"]
        return self.goes("earlier_commands", self.tile_came, last)

    def before(self, row: Any) -> Any:
        taken = sorted(self.commands.values(), key=self.taking)
        return taken[[self.taking(each) for each in taken].index(self.taking(row)) - 1]

    def taking(self, row: Any) -> tuple[int, ...]:
        """A key that puts commands in the order in which the scheduler took them."""
        taken, decoded, fed, seq = (
            int(row[name]) for name in ("t_taken_ps", "t_decoded_ps", "t_fed_ps", "command_seq")
        )
        came = max((op.ready for op in self.ops if op.seq == seq and op is self.tile(op)[0]), default=0)
        return taken, decoded, fed, came, seq

    def command_decoded(self, row: Any) -> tuple[Any, Any]:
        self.work(int(row["t_taken_ps"]), int(row["t_decoded_ps"]), "pe_scheduler", "decode", int(row["command_seq"]))
        return self.command_taken, row

    def command_taken(self, row: Any) -> tuple[Any, Any]:
        if row["t_taken_ps"] == row["t_submitted_ps"]:
            return self.command_submitted, row
        before = self.before(row)
        assert before["t_decoded_ps"] == row["t_taken_ps"]
        return self.goes("submission_queue", self.command_decoded, before)

    def command_submitted(self, row: Any) -> tuple[Any, Any]:
        if row["t_submitted_ps"] > row["t_issued_ps"]:
            taken = [each for each in self.commands.values() if each["t_taken_ps"] == row["t_submitted_ps"]]
            return self.goes("submission_queue", self.command_taken, taken[-1])
        self.via = "submission"
        if row["operand_ps"]:
            awaited = self.commands[int(row["operand_seq"])]
            if awaited["t_done_ps"] != row["t_issued_ps"]:
                assert awaited["t_submitted_ps"] == row["t_issued_ps"]
                return self.goes("engine_queue", self.command_submitted, awaited)
            return self.goes("operand", self.command_done, awaited)
        self.work(int(row["t_call_ps"]), int(row["t_issued_ps"]), "pe_cpu", "issue", int(row["command_seq"]))
        while row["after"] == 3:
            before = self.commands[int(row["after_seq"])]
            self.via = "program"
            self.work(int(before["t_call_ps"]), int(row["t_call_ps"]), "pe_cpu", "issue", int(before["command_seq"]))
            row = before
        if row["after"] == 0:
            assert row["t_call_ps"] == self.kernel["t_start_ps"]
            return None, None
        event = self.command_submitted if row["after"] == 1 else self.command_done
        return self.goes("program", event, self.commands[int(row["after_seq"])])
