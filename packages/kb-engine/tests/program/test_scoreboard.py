"""Who waits for whom, against sets of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from kb_engine.program.port import Completion
from kb_engine.program.scoreboard import Scoreboard
from kb_messages import OFFSET_BITS, DType, GemmCommand, LoadCommand, Matrix, StoreCommand, SubmittedCommand


def matrix(start, rows, cols, stride=None, owner=1):
    return Matrix(address=(owner << OFFSET_BITS) + start, rows=rows, cols=cols, stride=stride or cols, dtype=DType.I8)


def submitted(seq, command):
    return SubmittedCommand(command_seq=seq, pe="pe0", line="k.py:1", command=command)


def bytes_of(each):
    return {each.address + row * each.stride + col for row in range(each.rows) for col in range(each.row_nbytes)}


matrices = st.builds(
    lambda start, rows, cols, gap, owner: matrix(start, rows, cols, cols + gap, owner),
    st.integers(0, 24), st.integers(1, 4), st.integers(1, 4), st.integers(0, 4), st.integers(1, 2),
)  # fmt: skip
commands = st.one_of(
    st.builds(lambda src, dst: LoadCommand(src=src, dst=dst), matrices, matrices),
    st.builds(lambda src, dst: StoreCommand(src=src, dst=dst), matrices, matrices),
    st.builds(lambda a, b, out: GemmCommand(a=a, b=b, out=out), matrices, matrices, matrices),
    st.builds(lambda a, out: GemmCommand(a=a, b=a, out=out), matrices, matrices),
)


def touched(command):
    """The bytes a command reads, and those it writes."""
    if isinstance(command, GemmCommand):
        return bytes_of(command.a) | bytes_of(command.b), bytes_of(command.out)
    return bytes_of(command.src), bytes_of(command.dst)


@given(st.lists(st.tuples(commands, st.integers(0, 3)), max_size=8))
def test_a_command_waits_for_the_oldest_whose_bytes_it_touches_the_other_way(steps):
    board, flying = Scoreboard(), {}
    for seq, (command, retired) in enumerate(steps):
        reads, writes = touched(command)
        waits_for = [
            other
            for other, (earlier, _) in flying.items()
            if touched(earlier)[1] & (reads | writes) or touched(earlier)[0] & writes
        ]
        found = board.conflict(submitted(seq, command))
        assert (found and found.command_seq) == min(waits_for, default=None)
        assert (found and found.completion) is (flying[min(waits_for)][1] if waits_for else None)
        flying[seq] = command, Completion()
        board.issue(submitted(seq, command), flying[seq][1])
        for done in list(flying)[:retired]:
            board.retire(submitted(done, flying.pop(done)[0]))
    for seq, (command, _) in flying.items():
        board.retire(submitted(seq, command))
    assert len(board._index) == 0


def test_two_that_read_the_same_bytes_do_not_wait_for_each_other():
    board = Scoreboard()
    board.issue(submitted(0, LoadCommand(src=matrix(0, 1, 4), dst=matrix(0, 1, 4, owner=2))), Completion())
    assert board.conflict(submitted(1, LoadCommand(src=matrix(0, 1, 4), dst=matrix(4, 1, 4, owner=2)))) is None
