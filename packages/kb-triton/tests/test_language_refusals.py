"""What is refused: in one sentence, at the line of the kernel."""

import re

import ml_dtypes
import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError


@triton.jit
def steers_by_a_block(x, B: tl.constexpr):
    if tl.load(x + tl.arange(0, B)) > 0:
        tl.store(x, 1.0)


@triton.jit
def assembles(x, B: tl.constexpr):
    tl.inline_asm_elementwise("mov", "=r", [], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def doubles(x, B: tl.constexpr):
    tl.store(x, tl.load(x) * 2)


@triton.jit
def misspells(x, B: tl.constexpr):
    tl.sofmax(tl.load(x + tl.arange(0, B)))


@triton.jit
def sends(x, B: tl.constexpr):
    tl.send(tl.load(x + tl.arange(0, B)), 1)


@triton.jit
def meets_others(x, B: tl.constexpr):
    tl.barrier()


@triton.jit
def stores_later(x, B: tl.constexpr):
    tl.store_async(x + tl.arange(0, B), 1.0)


@triton.jit
def asks_a_vendor(x, B: tl.constexpr):
    tl.store(x, tl.extra.cuda.globaltimer())


@triton.jit
def counts_to_nine(x, B: tl.constexpr):
    tl.arange(0, B + 1)


@triton.jit
def counts_to_a_loaded_number(x, B: tl.constexpr):
    tl.arange(0, tl.load(x).to(tl.int32))


@triton.jit
def goes_beyond(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B) + 100, 1.0)


@triton.jit
def adds_other_shapes(x, B: tl.constexpr):
    tl.zeros([B], tl.float32) + tl.zeros([2 * B], tl.float32)


@triton.jit
def shifts_floats(x, B: tl.constexpr):
    tl.load(x) << 1


@triton.jit
def asserts(x, B: tl.constexpr):
    tl.static_assert(B == 9, "nine")


@triton.jit
def divides_by_nothing(x, B: tl.constexpr):
    tl.num_programs(0) // (tl.program_id(0) * 0)


@triton.jit
def multiplies_two_types(x, B: tl.constexpr):
    tl.dot(tl.zeros([16, 16], tl.float16), tl.zeros([16, 16], tl.float32))


NO_MESSAGES = (
    ", needs a name that tl has here; Triton has no messages between programs; pass data by memory and flags by "
    "tl.atomic_add, or write the kernel in kb's own tl, which has tl.send, tl.recv and tl.barrier"
)
SENTENCES = {
    steers_by_a_block: "got the truth of a block of 8, needs a scalar; write & for and, | for or, ~ for not, and "
    "tl.where for if",
    assembles: "got tl.inline_asm_elementwise, needs functions of tl: the chip does not have the instructions of a GPU",
    misspells: "got tl.sofmax, needs a name that tl has here; did you mean tl.softmax or ",
    sends: "got tl.send" + NO_MESSAGES,
    meets_others: "got tl.barrier" + NO_MESSAGES,
    stores_later: "got tl.store_async, needs a name that tl has here; use tl.store, after which other work of the "
    "program goes on",
    asks_a_vendor: "got tl.extra.cuda.globaltimer, needs a name that tl.extra.cuda has here; the chip has no "
    "extensions of one vendor",
    counts_to_nine: "got tl.arange from 0 to 9, needs a number of integers that is a power of two",
    counts_to_a_loaded_number: "got tl.arange from an int to a scalar of int32, needs two integers of Python or of "
    "parameters that are tl.constexpr",
    goes_beyond: "got index 107 in dimension 0 of x, 428 bytes from its start, needs 0 to 7; leave it out by a mask, "
    "or correct the index",
    adds_other_shapes: "got + of blocks of 8 and 16, needs shapes that broadcast",
    shifts_floats: "got << of floats, needs integers; cast to tl.int32 first",
    asserts: "got a tl.static_assert that does not hold: nine, needs a true condition",
    divides_by_nothing: "got a division by zero of integers, needs another divisor",
    multiplies_two_types: "got tl.dot of fp16 and fp32, needs blocks of one type; cast one of them",
}


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("kernel", SENTENCES, ids=lambda kernel: kernel.__name__)
def test_a_refusal_is_a_sentence_at_the_line(kernel):
    with pytest.raises(KbError) as refused:
        kernel[1,](np.zeros(8, np.float32), B=8)
    text = str(refused.value)
    line = kernel.fn.__code__.co_firstlineno
    assert re.match(rf"test_language_refusals\.py:({line + 2}|{line + 3})", text), text
    assert SENTENCES[kernel] in text


def test_float64_is_moved_and_not_computed_with():
    with pytest.raises(KbError, match=r"\* of tl\.float64, needs a type of 32 bits or less"):
        doubles[1,](np.zeros(8), B=8)


@triton.jit
def takes_a_vendors_type(x, KIND: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, 8)
    if HOW == "adds":
        tl.zeros([8], KIND) + 1.0
    elif HOW == "cast":
        tl.load(x + at).to(KIND)
    elif HOW == "bits":
        tl.load(x + at).to(tl.uint8).to(KIND, bitcast=True)
    else:
        tl.load(x.to(tl.pointer_type(KIND)) + at)


@pytest.mark.parametrize("kind", [tl.float8e4b8, tl.float8e5b16, tl.float8e4b15], ids=str)
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            "arithmetic",
            "elements of {}, needs a type that the chip has: tl.float8e4nv and tl.float8e5 of the fp8 types",
        ),
        ("cast", "a cast to {}, needs tl.float8e5 or tl.float8e4nv of the fp8 types"),
        ("bits", "a bitcast of uint8 to {}, needs types of 8 bits at least that the chip has"),
        ("pointer", "elements of {}, needs a type that the chip has: tl.float8e4nv and tl.float8e5 of the fp8 types"),
    ],
)
def test_a_type_that_the_chip_does_not_have(kind, how, sentence):
    with pytest.raises(KbError, match=re.escape("got " + sentence.format(kind.name))):
        takes_a_vendors_type[1,](np.zeros(8, np.float32), KIND=kind, HOW=how)


@pytest.mark.parametrize("kind", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"])
def test_an_array_of_a_type_that_the_chip_does_not_have(kind):
    needs = "needs a type that the chip has: float8_e4m3fn and float8_e5m2 of the fp8 types"
    with pytest.raises(KbError) as caught:
        doubles[1,](np.zeros(8, getattr(ml_dtypes, kind)), B=8)
    assert str(caught.value) == f"argument x: got an array of {kind}, {needs}"


def test_a_missing_name_is_a_missing_attribute():
    assert not hasattr(tl, "sofmax")
    assert not hasattr(tl.extra.cuda, "globaltimer")
    assert not hasattr(tl.extra.libdevice, "sofmax")
    with pytest.raises(KbError, match=r"^libdevice: got libdevice.tanhh, needs a name that libdevice has here;"):
        tl.extra.libdevice.tanhh  # noqa: B018 - the look itself is refused
