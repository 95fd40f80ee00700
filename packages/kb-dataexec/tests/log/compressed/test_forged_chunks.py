"""Chunks of compressed rows that no run writes are refused, as a whole and by command; chunks of a run are read."""

import numpy as np
import pytest
from dataexec_compressed_log import HBM, N_OPS, VALUES, C, ChunkTables, form, memory

from kb_dataexec import Executor
from kb_dataexec.log import LogFolder
from kb_dataexec.log.compressed import CommandLog, RecordCounter
from kb_messages import DType, LogError, WaitReason

ENDS = [10 * op + 10 for op in range(N_OPS)]


def copied(log):
    """What is in C behind *log*."""
    return Executor(log, memory(), "tile").run().read(HBM, C, 8, 16, 16, DType.F32)


def refusal(read):
    with pytest.raises(LogError) as error:
        read()
    return str(error.value)


def refused(tables, folder):
    """Why the log of *tables* is refused, whole and by command: the reason behind the place of the chunk."""
    tables.write(folder)
    texts = [refusal(lambda: LogFolder(folder).whole()), refusal(lambda: LogFolder(folder).by_command())]
    assert texts[0] == texts[1]
    return texts[0]


def test_a_log_as_a_run_writes_it_is_read_in_both_ways(tmp_path):
    """A command that was not done is told of again, under a plan with other bases, which its addresses replace."""
    folder = ChunkTables().write(tmp_path / "log")
    whole, by_command = LogFolder(folder).whole(), LogFolder(folder).by_command()
    assert whole.ops["op_id"].tolist() == [*range(N_OPS)]
    assert whole.ops["t_out_ps"].tolist() == ENDS
    assert whole.ops["command_seq"].tolist() == [0] * 4 + [1] * 4
    assert np.array_equal(copied(whole), VALUES)
    assert np.array_equal(copied(by_command), VALUES)


def test_a_command_that_goes_on_may_have_more_slots_and_pieces_than_before(tmp_path):
    tables = ChunkTables()
    tables.chunks[0]["commands"][1][-5] = -1
    tables.chunks[1]["commands"][0][5] = 1
    tables.chunks[1]["moved"] = [[1, 0, 64]]
    assert np.array_equal(copied(LogFolder(tables.write(tmp_path / "log")).by_command()), VALUES)


def set_row(chunk, name, row, column, value):
    """A change of `ChunkTables`: number *column* of row *row* of table *name* in chunk number *chunk* is *value*."""

    def change(tables):
        tables.chunks[chunk][name][row][column] = value

    return change


def set_rows(chunk, name, rows):
    """A change of `ChunkTables`: table *name* of chunk number *chunk* has *rows*."""

    def change(tables):
        tables.chunks[chunk][name] = rows

    return change


def both(*changes):
    """All of *changes*."""

    def change(tables):
        for each in changes:
            each(tables)

    return change


def other_form(tables):
    tables.forms[1] = [form(cols=2)]


OTHER_COMMANDS = {
    "form": other_form,
    "address": set_row(1, "addresses", 1, 1, C + 64),
    "command_seq": set_row(1, "commands", 0, 1, 2),
    "line": set_row(1, "commands", 0, 3, 3),
    "line of a stage": set_rows(1, "stages", [[1, 3]]),
    "slots": set_rows(1, "slots", [[64, 64, 2, 0]]),
    "no slots": set_row(1, "commands", 0, -5, -1),
    "a piece less": both(set_row(0, "commands", 1, 5, 1), set_rows(0, "moved", [[1, 0, 64]])),
    "done before": set_row(0, "commands", 1, 12, 80),
}
"""Changes after which the second chunk has another command of op 4 than the first chunk."""


@pytest.mark.parametrize("change", OTHER_COMMANDS)
def test_a_command_that_differs_from_the_one_in_an_earlier_chunk_is_refused(change, tmp_path):
    """Its rows would depend on the chunk that they are in."""
    tables = ChunkTables()
    OTHER_COMMANDS[change](tables)
    assert "a command of op 4 that differs from the one in an earlier chunk" in refused(tables, tmp_path / "log")


def test_a_command_whose_rows_are_written_does_not_come_again(tmp_path):
    tables = ChunkTables()
    tables.chunks[1]["commands"].insert(0, ChunkTables.command(0, done_ps=40))
    tables.chunks[1]["addresses"] = tables.chunks[0]["addresses"]
    tables.write(tmp_path / "log")
    text = refusal(lambda: LogFolder(tmp_path / "log").whole())
    assert "a command of op 0 that differs from the one in an earlier chunk" in text


def test_two_commands_of_one_place_in_the_order_are_not_executed_by_command(tmp_path):
    tables = ChunkTables()
    for chunk in tables.chunks:
        chunk["commands"][-1][1] = 0
    folder = tables.write(tmp_path / "log")
    assert LogFolder(folder).by_command() is None
    with pytest.raises(LogError):
        copied(LogFolder(folder).whole())


@pytest.mark.parametrize("op", [N_OPS, 1 << 40, -1])
def test_a_log_with_an_op_of_no_command_is_not_read_by_command(op, tmp_path):
    """Behind an error, ops of later commands have records where earlier ones lack some."""
    tables = ChunkTables()
    folder = tables.write(tmp_path / "log")
    source = LogFolder(folder)
    tables.chunks[1]["records"][-1][0] = op
    chunks = [(each.read_bytes(), each.name) for each in sorted(tables.write(tmp_path / "other").glob("formulas-*"))]

    assert CommandLog.read(chunks, source.strings, source.immediates, N_OPS) is None


def test_a_log_of_a_run_that_an_error_ended_is_read_whole(tmp_path):
    """Ops 2 to 5 never came, and ops 6 and 7 did."""
    tables = ChunkTables()
    tables.chunks[0]["parts"] = [[-1, 0, 2, 0, 0, 0]]
    folder = tables.write(tmp_path / "log")
    with pytest.raises(LogError, match="got no row of 4 of the ops 0 to 7, the first of them op 2,"):
        LogFolder(folder).whole()
    (folder / "manifest.json").unlink()
    found = LogFolder(folder, prefix=True)
    assert found.whole().ops["op_id"].tolist() == [0, 1, 6, 7]
    assert found.by_command() is None


def test_an_op_behind_those_of_its_command_is_refused(tmp_path):
    tables = ChunkTables()
    tables.chunks[1]["records"][-1][0] = N_OPS
    tables.write(tmp_path / "log")
    text = refusal(lambda: LogFolder(tmp_path / "log").whole())
    assert "op 8, which is behind the last op of its command" in text


@pytest.mark.parametrize(("column", "time_ps"), [(1, 71), (2, 81), (3, 81)])
def test_times_that_fall_are_refused(column, time_ps, tmp_path):
    """Op 7 is ready at 0, begins at 70 and ends at 80 ps."""
    tables = ChunkTables()
    tables.chunks[1]["records"][-1][column] = time_ps
    text = refused(tables, tmp_path / "log")
    assert "ops row 1: got the times" in text
    assert text.endswith("needs t_ready_ps <= t_start_ps <= t_end_ps <= t_out_ps")


def test_a_wait_of_more_than_the_time_before_its_record_is_refused(tmp_path):
    """Op 7 waits 70 ps. What no reason explains is the wait for its channel."""
    tables = ChunkTables()
    tables.chunks[1]["parts"].append([-1, 1, 1, 0, 0, 0])
    tables.chunks[1]["waits"] = [[7, WaitReason.TCM_PORT, 71, 80]]
    assert refused(tables, tmp_path / "log").endswith("ops row 1: got wait_channel_ps -1, needs 0 or more")


@pytest.mark.parametrize("n_rows", [1, 3, 1 << 40])
def test_parts_of_other_rows_than_there_are_are_refused(n_rows, tmp_path):
    """They are counted from the parts, and made from the rows."""
    tables = ChunkTables()
    tables.chunks[1]["parts"][0][2] = n_rows
    expected = f"parts of {n_rows} rows of records, of which there are 2"
    assert expected in refused(tables, tmp_path / "log")
    data = (tmp_path / "log/formulas-000001.z").read_bytes()
    assert expected in refusal(lambda: RecordCounter().add(data, "chunk"))


def test_rows_that_never_come_are_refused(tmp_path):
    tables = ChunkTables()
    tables.chunks[1]["chunk"] = [[75, 16]]
    tables.write(tmp_path / "log")
    assert "rows that come after the last chunk (1 of no command" in refusal(
        lambda: LogFolder(tmp_path / "log").whole()
    )


def test_rows_of_closed_commands_that_never_come_are_refused(tmp_path):
    tables = ChunkTables()
    chunk = tables.chunks[1]
    chunk |= {"chunk": [[75, 16]], "parts": [[0, 0, 2, 0, 0, 0]], "closed": [[4, 40, 80, 0, 0]]}
    chunk["records"] = [[op - 4, 0, 10 * op - 40, 10 * op - 30, 10 * op - 30] for op in range(6, 8)]
    text = refusal(lambda: LogFolder(tables.write(tmp_path / "log")).whole())
    assert "rows that come after the last chunk (0 of no command, and of 1 commands)" in text
    chunk["chunk"] = [[81, 16]]
    assert LogFolder(tables.write(tmp_path / "other")).whole().ops["t_out_ps"].tolist() == ENDS


def test_a_prefix_may_lack_rows(tmp_path):
    """Nobody has written the chunk that they come in."""
    tables = ChunkTables()
    tables.chunks[1]["chunk"] = [[75, 16]]
    folder = tables.write(tmp_path / "log")
    (folder / "manifest.json").unlink()
    assert LogFolder(folder, prefix=True).whole().ops["t_out_ps"].tolist() == ENDS[:-1]


def test_more_rows_than_a_chunk_leaves_for_the_next_one_are_refused(tmp_path):
    """Rows that come later are kept in memory."""
    tables = ChunkTables()
    tables.chunks[0]["parts"][1][3] = 1 << 22
    text = refusal(lambda: LogFolder(tables.write(tmp_path / "log")).summary.n_ops)
    assert "rows that come later than the chunk" in text


def test_repetitions_of_more_rows_than_a_run_has_in_that_time_are_refused(tmp_path):
    """30 repetitions that repeat each other at 1 ps have 2^31 rows in 20 ps."""
    tables = ChunkTables()
    tables.chunks[0]["parts"][1:] = [[-1, 0, -n, 1, 2, 1] for n in range(1, 31)]
    assert "repetitions of more rows than a run has in that time" in refused(tables, tmp_path / "log")


def test_repetitions_of_many_parts_are_refused(tmp_path):
    """6,000 repetitions of all parts before them sum 18 million parts, none of which has rows."""
    tables = ChunkTables()
    tables.chunks[0]["parts"] = [[-1, 0, 0, 0, 0, 0]] * 6000 + [[-1, 0, -6000, 1, 2, 1 << 40]] * 6000
    tables.chunks[0]["records"] = []
    assert "repetitions of more rows than a run has in that time" in refused(tables, tmp_path / "log")


WRONG_PLACES = {
    "address beyond its memory": set_row(0, "addresses", 0, 1, 1 << 38),
    "address below its memory": set_row(0, "addresses", 0, 1, -64),
    "owner that no address has": set_row(0, "addresses", 0, 0, 1 << 60),
    "TCM that no address has": set_row(0, "pes", 0, 1, 1 << 60),
    "slots beyond their memory": set_rows(0, "slots", [[(1 << 38) - 64, 64, 2, 0]]),
    "slots of less than no bytes": set_rows(0, "slots", [[0, -64, 2, 0]]),
    "first slot below 0": set_rows(0, "slots", [[0, 64, 2, -1]]),
    "piece beyond its memory": both(set_row(0, "commands", 0, 5, 1), set_rows(0, "moved", [[1, 0, 1 << 38]])),
}


@pytest.mark.parametrize("change", WRONG_PLACES)
def test_places_that_no_memory_has_are_refused(change, tmp_path):
    tables = ChunkTables()
    WRONG_PLACES[change](tables)
    text = refused(tables, tmp_path / "log")
    assert "bits have room" in text or "slots of a buffer that no memory has" in text


@pytest.mark.parametrize(
    ("name", "row"), [("stages", [1, -1]), ("addresses", [HBM, 0]), ("moved", [1, 0, 0]), ("memories", [0])]
)
def test_rows_that_belong_to_nothing_are_refused(name, row, tmp_path):
    tables = ChunkTables()
    tables.chunks[0].setdefault(name, []).append(row)
    assert f"rows of {name} that belong to nothing" in refused(tables, tmp_path / "log")
