"""What programs that send messages are refused: the whole sentence, at the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chip_specs import changed_chip, nodes_of_pe

from kb_engine import DType, Engine, Host
from kb_messages import KernelError

FOLDER = Path(__file__).parent
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER / "messages")
    chip_of: Callable[..., dict[str, Any]] = import_module("messages_chips").chip_of
PE = "sip0.cube0.pe"
NODE = "add `pe_queue: {kind: pe_queue, impl: builtin.pe_queue}` to pe_template, and a link from it to the NOC"
CALLS: dict[str, Callable[[Any, Any], object]] = {
    "send": lambda tl, x: tl.send(tl.load(x), 1),
    "recv": lambda tl, x: tl.recv(1),
    "signal": lambda tl, x: tl.signal(1, "go"),
    "wait_for": lambda tl, x: tl.wait_for("go"),
    "barrier": lambda tl, x: tl.barrier(),
}


def without_queue() -> dict[str, Any]:
    spec = chip_of("one_cube")
    del nodes_of_pe(spec)["pe_queue"]
    for where, key in ((spec["cube"], "links"), (spec["cube"]["pe_template"], "wires")):
        where[key] = [each for each in where[key] if "pe_queue" not in str(each)]
    return spec


def refusal(kernel: Any, spec: dict[str, Any] | None = None, shape: tuple[int, ...] = (8, 16), **given: Any) -> str:
    """The sentence that a launch of *kernel* ends with, without its file."""
    host = Host(Engine(changed_chip(spec or chip_of("one_cube"))), FOLDER)
    x = host.tensor("x", np.ones(shape, np.float32), DType.F32)
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, x, **{"pes": [0, 1], **given})
    assert caught.value.exit_code == 2
    file, line, sentence = str(caught.value).split(":", 2)
    assert file == "test_message_refusals.py"
    assert line.split(",")[0].isdigit()
    return sentence.strip()


@pytest.mark.parametrize("call", CALLS)
def test_a_chip_without_message_queues(call: str) -> None:
    assert refusal(CALLS[call], without_queue()) == (
        f"got tl.{call} with {PE}0, which has no pe_queue, needs a chip whose PEs have one; {NODE}"
    )


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("grid", [(9,), (3, 4), (2, 3, 5)], ids=str)
def test_more_programs_than_pes(call: str, grid: tuple[int, ...]) -> None:
    assert refusal(CALLS[call], grid=grid, pes="all").split("got ")[1] == (
        f"tl.{call} in a launch of {np.prod(grid)} programs on 8 PEs, needs a PE for each program; a program that "
        "waits keeps its PE: launch at most 8 programs"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda tl, x: tl.send(tl.load(x), tl.program_id()), "tl.send of program 0 with itself, needs another program"),
        (lambda tl, x: tl.recv(tl.program_id()), "tl.recv of program 0 with itself, needs another program"),
        (lambda tl, x: tl.signal(tl.program_id(), 0), "tl.signal of program 0 with itself, needs another program"),
        (lambda tl, x: tl.send(tl.load(x), 2), "tl.send with program 2, needs one of 2 programs, 0 to 1"),
        (lambda tl, x: tl.recv(-1), "tl.recv with program -1, needs one of 2 programs, 0 to 1"),
        (lambda tl, x: tl.signal(99, "a"), "tl.signal with program 99, needs one of 2 programs, 0 to 1"),
        (lambda tl, x: tl.barrier([0, 2]), "a group with program 2, needs programs from 0 to 1"),
        (
            lambda tl, x: tl.barrier([1]),
            ("a group without program 0, needs a group of different programs, this program among them"),
        ),
        (
            lambda tl, x: tl.barrier([0, 1, 0]),
            ("a group with a program twice, needs a group of different programs, this program among them"),
        ),
        (lambda tl, x: tl.barrier(2), "a group that is an int, needs a group, or the numbers of its programs"),
        (lambda tl, x: tl.barrier(["0"]), "tl.barrier with program '0', needs the number of a program, an int"),
        (lambda tl, x: tl.recv(1.0), "tl.recv with program 1.0, needs the number of a program, an int"),
        (lambda tl, x: tl.send(tl.load(x), True), "tl.send with program True, needs the number of a program, an int"),
        (lambda tl, x: tl.recv(1, 1.5), "the tag 1.5, needs an int, a text, or a tuple of at most 8 of these"),
        (lambda tl, x: tl.recv(1, ()), "the tag (), needs an int, a text, or a tuple of at most 8 of these"),
        (
            lambda tl, x: tl.recv(1, (0,) * 9),
            (f"the tag {(0,) * 9}, needs an int, a text, or a tuple of at most 8 of these"),
        ),
        (
            lambda tl, x: tl.send(tl.load(x), 1, [0]),
            ("the tag a list, needs an int, a text, or a tuple of at most 8 of these"),
        ),
        (lambda tl, x: tl.signal(1, "a\n"), r"the tag 'a\n', needs an int, a text, or a tuple of at most 8 of these"),
        (
            lambda tl, x: tl.signal(1, "long" * 26),
            "the tag a str, needs an int, a text, or a tuple of at most 8 of these",
        ),
        (lambda tl, x: tl.wait_for(None), "the tag None, needs an int, a text, or a tuple of at most 8 of these"),
        (lambda tl, x: tl.signal(1, "a", 0), "tl.signal with n = 0, needs an integer of at least 1"),
        (lambda tl, x: tl.wait_for("a", 1.5), "tl.wait_for with n = 1.5, needs an integer of at least 1"),
        (lambda tl, x: tl.wait_for("a", True), "tl.wait_for with n = True, needs an integer of at least 1"),
        (lambda tl, x: tl.send(x, 1), "tl.send of a TensorRef, needs a value in TCM, such as a result of tl.load"),
        (lambda tl, x: tl.send(3, 1), "tl.send of an int, needs a value in TCM, such as a result of tl.load"),
        (
            lambda tl, x: tl.send(np.ones(4), 1),
            ("tl.send of a ndarray, needs a value in TCM, such as a result of tl.load"),
        ),
    ],
)
def test_wrong_programs_tags_counts_and_values(call: Callable[[Any, Any], object], sentence: str) -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            call(tl, x)

    assert refusal(kernel) == f"got {sentence}"


def test_a_value_after_free() -> None:
    def sends(tl: Any, x: Any) -> None:
        value = tl.load(x)
        tl.free(value)
        tl.send(value, 1 - tl.program_id())

    def stores(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            tl.send(tl.load(x), 1)
        else:
            value = tl.recv(0)
            tl.free(value)
            tl.store(x, value)

    for kernel in (sends, stores):
        assert refusal(kernel) == "got a LoadedTensor after tl.free, needs one that still holds TCM"


def test_values_of_other_programs() -> None:
    kept: list[Any] = []

    def kernel(tl: Any, x: Any) -> None:
        me = tl.program_id()
        kept.append(tl.load(x))
        tl.barrier()
        if me == 1:
            tl.send(next(each for each in kept if each is not kept[me]), 0)
        tl.barrier()

    assert "needs values of the program that uses them" in refusal(kernel)


def test_a_message_larger_than_the_first_of_its_channel() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            tl.send(tl.load(x[0]), 1, ("part", 0))
            tl.send(tl.load(x[0:2]), 1, ("part", 0))
        else:
            for _ in range(2):
                tl.recv(0, ("part", 0))

    first = kernel.__code__.co_firstlineno + 2
    assert refusal(kernel) == (
        f"got a message of 128 bytes to {PE}1, tag part 0, needs at most 64 bytes, the slots that the first message "
        f"took at test_message_refusals.py:{first}; send the largest message first, or use a tag for each size"
    )


def test_a_full_tcm_names_what_the_receiver_holds_by_line() -> None:
    # A TCM of 1,310,720 bytes, of which the receiver holds 1,048,576 and three slots take 196,608.
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            kept = tl.load(x)
            tl.signal(1, "go")
            tl.recv(1)
            tl.free(kept)
        else:
            tl.wait_for("go")
            part = tl.load(x[0:64])
            tl.send(part, 0, "a")
            tl.send(part, 0, "b")

    first = kernel.__code__.co_firstlineno
    at = "test_message_refusals.py"
    assert refusal(kernel, shape=(1024, 256)) == (
        f"{PE}0.pe_tcm: got 3 slots of 65536 bytes for messages to {PE}0, tag b, needs at most 0 in one piece "
        f"(0 of 1310720 are free, {at}:{first + 2} holds 1048576, the 3 slots of tag a at {at}:{first + 9} holds "
        f"196608, the 3 slots of tag b at {at}:{first + 10} holds 65536); send smaller parts, keep fewer values there, "
        "or lower the depth of its pe_queue"
    )
