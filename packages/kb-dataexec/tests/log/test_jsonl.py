import json
import re
import time

import numpy as np
import pytest
from dataexec_gemm_log import HBM, TCM, GemmProblem, LogBuilder
from dataexec_log_lines import write_lines

from kb_dataexec.execute.executor import Executor
from kb_dataexec.log.lines import log_lines as loglines
from kb_dataexec.logfile import LogLines, open_log, read_log, write_log
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_messages import DType, LogError, MemorySpace, OpKind, Role

PROBLEM = GemmProblem(12, 12, 12, (4, 4, 4), transpose_b=True)
OUT = {"role": "OUT", "owner": HBM, "offset": 0, "rows": 1, "row_nbytes": 4, "dtype": "f32"}
OP = {"kind": "math", "operands": [OUT], "params": {"op": "copy", "scalars": [1.0]}}
LARGEST = 2**63 - 1


def constants():
    """A log that writes two constants into a tile buffer, with times and waits."""
    builder = LogBuilder()
    for number, values in enumerate((np.arange(6, dtype=np.float32), np.arange(3, dtype=np.float16))):
        at, nbytes = builder.writer.immediate(values.tobytes()), values.nbytes
        code = (DType.F32, DType.F16)[number].info.code
        source = (Role.SRC, MemorySpace.IMMEDIATE.code, 0, at, 1, nbytes, nbytes, code, 0)
        target = (Role.DST, MemorySpace.TCM.code, TCM, 64 * number, 1, nbytes, nbytes, code, 0)
        builder.add((0, number, 0), OpKind.MEMORY, "fill", [source, target], span_ps=(5 + number, 10))
    log = builder.log()
    log.ops["t_ready_ps"] = 2
    log.ops["wait_tcm_port_ps"] = (1, 3)
    log.ops["wait_operand_ps"] = 2 - np.arange(2)
    return log


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", 1000)


def read(tmp_path, *lines, end="\n", prefix=False):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (tmp_path / "log.jsonl").write_text("\n".join(texts) + end)
    return read_log(tmp_path / "log.jsonl", prefix=prefix)


@pytest.mark.parametrize("log", [PROBLEM.log(), constants()], ids=["gemm", "immediates"])
def test_lines_and_a_folder_are_the_same_log(tmp_path, log):
    write_log(tmp_path / "folder", log)
    folder, lines = read_log(tmp_path / "folder"), read_log(write_lines(tmp_path / "log.jsonl", log))
    assert lines.is_complete
    assert list(lines.records()) == list(folder.records())
    assert lines.immediates == folder.immediates
    assert lines.digest == folder.digest  # strings are numbered alike: by record, in the order of the columns


def test_chunks_make_up_the_log(tmp_path, small_chunks):
    log = PROBLEM.log()
    source = open_log(write_lines(tmp_path / "log.jsonl", log))
    for _ in range(2):
        chunks = list(source.chunks())
        assert len(chunks) == source.n_chunks > 10
        assert [record for chunk in chunks for record in chunk.records()] == list(log.records())
        assert max(chunk.n_ops for chunk in chunks) < 5
    assert read_log(source.path).digest == log.digest


def test_a_line_longer_than_a_chunk_is_read(tmp_path, small_chunks):
    lines = [{**OP, "line": "x" * 5000}, OP, {**OP, "line": "y" * 1500}]
    assert [(each.op_id, len(each.line)) for each in read(tmp_path, *lines).records()] == [(0, 5000), (1, 0), (2, 1500)]
    n_ops = [chunk.n_ops for chunk in open_log(tmp_path / "log.jsonl").chunks()]
    assert n_ops == [1, 0, 0, 0, 0, 2, 0, 0]  # the first ends in the sixth thousand bytes, the last in the eighth


def test_reading_the_chunks_again_starts_afresh(tmp_path):
    source = open_log(write_lines(tmp_path / "log.jsonl", constants()))
    for _ in range(2):
        (chunk,) = source.chunks()
        assert list(chunk.records()) == list(constants().records())
        assert source.immediates == constants().immediates


def test_what_a_line_leaves_out(tmp_path):
    first, second = read(tmp_path, OP, "", OP).records()
    assert first == second.__class__(
        op_id=0, command_seq=0, tile_id=0, stage_index=0, kind=OpKind.MATH, name="math", component="", line="",
        params='{"op":"copy","scalars":[1.0]}', t_ready_ps=0, t_start_ps=0, t_end_ps=0, t_out_ps=0, waits_ps=(0,) * 6,
        operands=first.operands,
    )  # fmt: skip
    assert (second.op_id, second.tile_id) == (2, 2)  # the empty line counts
    (operand,) = first.operands
    assert (operand.stride, operand.release, operand.space) == (4, False, MemorySpace.HBM)


@pytest.mark.parametrize(
    ("given", "times"),
    [
        ({"t_start_ps": 7}, (7, 7, 7, 7)),
        ({"t_start_ps": 7, "t_end_ps": 9}, (7, 7, 9, 9)),
        ({"t_ready_ps": 3, "t_start_ps": 7, "t_out_ps": 9}, (3, 7, 7, 9)),
    ],
)
def test_times_that_are_left_out_follow_from_their_neighbours(tmp_path, given, times):
    (record,) = read(tmp_path, OP | given).records()
    assert (record.t_ready_ps, record.t_start_ps, record.t_end_ps, record.t_out_ps) == times


def fill(value, **more):
    return {**OP, "params": {"op": "copy", "scalars": [value]}, **more}


def test_ops_run_in_the_order_of_their_lines_unless_tiles_say_otherwise(tmp_path):
    def last(*lines):
        memory = Executor(read(tmp_path, *lines), MemoryStore([(HBM, 64, "hbm")])).run()
        return memory.read(HBM, 0, 1, 4, 4, DType.F32).item()

    assert last(fill(1.0), fill(2.0)) == 2
    assert last(fill(1.0, tile_id=9), fill(2.0)) == 1
    assert last(fill(1.0, command_seq=1), fill(2.0)) == 1


def operand(**changes):
    return OP | {"operands": [OUT | changes]}


def without(name, of=OUT):
    return {key: value for key, value in of.items() if key != name}


FIELDS = (
    "kind, operands, op_id, command_seq, tile_id, stage_index, name, component, line, params, depends_on, t_ready_ps, "
    "t_start_ps, t_end_ps, t_out_ps, wait_channel_ps, wait_tcm_port_ps, wait_register_file_ps, wait_compute_slot_ps, "
    "wait_operand_ps, wait_barrier_ps"
)
OPERAND_FIELDS = "role, owner, offset, immediate, rows, row_nbytes, stride, dtype, release, space"
AN_OBJECT = "needs a JSON object a line"
REQUIRED = "role, rows, row_nbytes, dtype in every one"
PLACE = "operands[0]: got no place, needs owner and offset, or the bytes themselves as immediate"
NOWHERE = "which is in no memory, needs sip << 22 | die << 14 | space << 10 | unit"
BOTH = "operands[0]: got an immediate and an owner or offset, needs one or the other"
IMMEDIATE = without("owner", without("offset"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'kind'}", f"got no JSON (JSON is malformed: object keys must be strings (byte 1)), {AN_OBJECT}"),
        ("[" * 100_000, f"got no JSON (maximum recursion depth exceeded while deserializing an object), {AN_OBJECT}"),
        ("[1]", "got [1], needs a JSON object"),
        (OP | {"tile": 3}, f'got an unknown field "tile", needs no others than {FIELDS}'),
        (operand(address=3), f'operands[0]: got an unknown field "address", needs no others than {OPERAND_FIELDS}'),
        (without("kind", OP), "got no field kind, needs kind, operands in every one"),
        (without("operands", OP), "got no field operands, needs kind, operands in every one"),
        (OP | {"operands": [OUT, without("dtype")]}, f"operands[1]: got no field dtype, needs {REQUIRED}"),
        (OP | {"kind": "GEMM"}, 'kind: got "GEMM", needs one of memory, gemm, math'),
        (OP | {"kind": 1}, "kind: got 1, needs one of memory, gemm, math"),
        (operand(role="C"), 'operands[0]: role: got "C", needs one of SRC, DST, A, B, ACC, OUT, IN'),
        (operand(dtype="f64"), f'operands[0]: dtype: got "f64", needs one of {", ".join(DType)}'),
        (operand(space="l1"), 'operands[0]: space: got "l1", needs one of hbm, sram, tcm, reg, immediate'),
        (operand(space=[]), "operands[0]: space: got [], needs one of hbm, sram, tcm, reg, immediate"),
        (operand(space="tcm"), "operands[0]: got space tcm with an owner in hbm, needs the owner's space, or none"),
        (operand(owner=0), f"operands[0]: owner: got 0, needs an integer from 1 to {2**30 - 1}"),
        (operand(owner=3), f"operands[0]: got owner 0x3, {NOWHERE}"),
        (operand(owner=5 << 10), f"operands[0]: got owner 0x1400, {NOWHERE}"),
        (operand(offset=-1), f"operands[0]: offset: got -1, needs an integer from 0 to {LARGEST}"),
        (operand(offset=4.0), f"operands[0]: offset: got 4.0, needs an integer from 0 to {LARGEST}"),
        (operand(rows=0), f"operands[0]: rows: got 0, needs an integer from 1 to {LARGEST}"),
        (operand(row_nbytes="4"), f'operands[0]: row_nbytes: got "4", needs an integer from 1 to {LARGEST}'),
        (operand(stride=None), f"operands[0]: stride: got null, needs an integer from 0 to {LARGEST}"),
        (operand(release=1), "operands[0]: release: got 1, needs true or false"),
        (OP | {"operands": [without("owner")]}, PLACE),
        (OP | {"operands": [without("offset")]}, PLACE),
        (operand(immediate="00"), BOTH),
        (OP | {"operands": [IMMEDIATE | {"immediate": "0"}]},
         "operands[0]: got an immediate that is no hexadecimal number, needs two digits a byte"),
        (OP | {"operands": [IMMEDIATE | {"immediate": "0000803f", "rows": 3, "stride": 8}]},
         "operands[0]: got an immediate of 4 bytes, needs 20, from the first row to the last one's end"),
        (OP | {"operands": OUT}, "operands: got " + json.dumps(OUT, separators=(",", ":"))[:57]
         + "..., needs a JSON list"),
        (OP | {"operands": [7]}, "operands[0]: got 7, needs a JSON object"),
        (OP | {"op_id": "a"}, f'op_id: got "a", needs an integer from {-(2**63)} to {LARGEST}'),
        (OP | {"stage_index": 2**15}, "stage_index: got 32768, needs an integer from -32768 to 32767"),
        (OP | {"tile_id": 2**63}, f"tile_id: got {2**63}, needs an integer from {-(2**63)} to {LARGEST}"),
        (OP | {"params": "copy"}, 'params: got "copy", needs a JSON object'),
        (OP | {"line": 7}, "line: got 7, needs a string"),
        (OP | {"wait_operand_ps": -1}, f"wait_operand_ps: got -1, needs an integer from 0 to {LARGEST}"),
        (OP | {"t_ready_ps": 5}, "got the times 5, 0, 0, 0, needs t_ready_ps <= t_start_ps <= t_end_ps <= t_out_ps"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_used_is_named(tmp_path, line, message):
    text = f"{tmp_path}/log.jsonl: line 3: {message}"
    with pytest.raises(LogError) as caught:
        read(tmp_path, OP, "", line, OP)
    assert str(caught.value) == text


def test_bytes_that_are_no_utf8_are_named(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b'{"kind": "math", "operands": [], "name": "\xff"}\n')
    text = "line 1: got the byte 0xff at offset 42, which is no UTF-8, needs a JSON object a line, in UTF-8"
    with pytest.raises(LogError, match=re.escape(text)):
        read_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_torn_last_line_is_refused_unless_a_prefix_is_asked_for(tmp_path, cut):
    torn = json.dumps(OP)[:cut]
    text = (
        f"{tmp_path}/log.jsonl: line 3: got no JSON (Input data was truncated), needs a JSON object a line; a torn "
        "last line is left out with --prefix, or read_log(file, prefix=True)"
    )
    with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
        read(tmp_path, OP, OP, torn, end="")
    log = read(tmp_path, OP, OP, torn, end="", prefix=True)
    assert (log.n_ops, log.is_complete) == (2, False)


def test_a_prefix_has_no_bad_line_before_its_end(tmp_path):
    with pytest.raises(LogError, match="line 2: got no JSON"):
        read(tmp_path, OP, json.dumps(OP)[:20], OP, prefix=True)


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n", "\n  "])
def test_a_whole_last_line_needs_no_end(tmp_path, end):
    for prefix in (False, True):
        log = read(tmp_path, OP, OP, end=end, prefix=prefix)
        assert (log.n_ops, log.is_complete) == (2, True)


@pytest.mark.parametrize("end", ["", "\n", "  \n\n"])
def test_a_file_without_an_op_is_no_log(tmp_path, end):
    for prefix in (False, True):
        with pytest.raises(LogError, match=r"log\.jsonl: got no op, needs one op a line, and at least one$"):
            read(tmp_path, end=end, prefix=prefix)


@pytest.mark.parametrize("end", ["garbage", "\0\0\0", "[1, 2", '"text', "{]", '{"kind": tru3'])
def test_a_last_line_that_no_end_makes_whole_is_refused_in_a_prefix_too(tmp_path, end):
    for prefix in (False, True):
        with pytest.raises(LogError, match=r"log\.jsonl: line 2: got no JSON \("):
            read(tmp_path, OP, end="\n" + end, prefix=prefix)


def twice(line, key, value):
    """*line* with *key* before every place where it stands."""
    return line.replace(f'"{key}":', f'"{key}": {value}, "{key}":')


@pytest.mark.parametrize(
    ("key", "value"), [("kind", '"math"'), ("operands", "[]"), ("rows", "1"), ("role", '"A"'), ("a1", "0")]
)
def test_a_key_that_stands_twice_is_refused_among_lines_of_the_same_form(tmp_path, key, value):
    line = json.dumps({**OP, "params": {"a1": 1, "a2": 2}})
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([line, line, twice(line, key, value), line]))
    message = rf"log\.jsonl: line 3: got no JSON \(key '{key}' stands twice in one object\)"
    with pytest.raises(LogError, match=message):
        read_log(path)


def test_keys_of_one_form_are_told_apart(tmp_path):
    lines = [json.dumps({**OP, "params": params}) for params in ({"a1": 1, "a2": 2}, {"x": 1, "y": 2})]
    path = tmp_path / "log.jsonl"
    for bad in ('{"a1": 1, "a1": 2}', '{"x1": 1, "x1": 2}', '{"x": 1, "\\u0078": 2}'):
        path.write_text("\n".join([*lines, *lines, json.dumps({**OP, "params": 5}).replace("5}", f"{bad}}}")]))
        with pytest.raises(LogError, match="line 5: got no JSON"):
            read_log(path)


def test_a_line_that_is_too_long_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """A file of 8 GiB without a line break is read up to the longest line."""
    assert loglines._LONGEST == 1 << 28
    monkeypatch.setattr(loglines, "_LONGEST", 1 << 20)
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(LogError, match=r"line 1: got a line of 1048576 bytes or more"):
        read_log(path)


def test_other_files_are_no_logs(tmp_path):
    (tmp_path / "log.json").write_text("{}")
    text = f"{tmp_path}/log.json: got a file, needs the folder of a log, or a file of lines, .jsonl"
    with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
        read_log(tmp_path / "log.json")
    with pytest.raises(LogError, match=f"^{re.escape(f'{tmp_path}/no.jsonl: got no such file, needs a file')}$"):
        read_log(tmp_path / "no.jsonl")


def test_a_folder_may_end_like_a_file_of_lines(tmp_path):
    write_log(tmp_path / "log.jsonl", PROBLEM.log())
    assert read_log(tmp_path / "log.jsonl").digest == PROBLEM.log().digest


def test_errors_leave_out_what_an_op_does_not_tell(tmp_path):
    source = {**OUT, "role": "SRC"}
    moved = {"kind": "memory", "operands": [source, {**OUT, "role": "DST", "offset": 4}]}
    log = read(tmp_path, moved, {**moved, "name": "", "line": "k.c:5"})
    with pytest.raises(StoreError, match=r"^op 0 \(memory\): hbm"):
        Executor(log, MemoryStore([(HBM, 64, "hbm")])).run()
    log = read(tmp_path, {**moved, "name": ""})
    with pytest.raises(StoreError, match=r"^op 0: hbm"):
        Executor(log, MemoryStore([(HBM, 64, "hbm")]), mode="tile").run()


def test_very_many_lines_take_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", 1 << 20)
    n_ops = 20_000
    row = {**OUT, "row_nbytes": 64}
    ops = ({"kind": "gemm", "operands": [{**row, "role": role, "offset": 64 * at} for role in ("A", "B", "OUT")]}
           for at in range(n_ops))  # fmt: skip
    with (tmp_path / "log.jsonl").open("w") as file:
        file.writelines(f"{json.dumps(op)}\n" for op in ops)
    begin = time.perf_counter()
    log = read_log(tmp_path / "log.jsonl")
    assert time.perf_counter() - begin < 4  # a tenth of a second on a quiet core
    assert (log.n_ops, log.n_operands, log.strings) == (n_ops, 3 * n_ops, ["gemm", ""])
    assert (log.operands["offset"] == np.repeat(64 * np.arange(n_ops), 3)).all()
    assert LogLines(tmp_path / "log.jsonl").n_chunks > 5
