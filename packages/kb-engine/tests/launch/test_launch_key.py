"""The key of a launch tells where the blocks of its tensors lie."""

from pathlib import Path

from kb_engine import Language, TensorRef
from kb_engine.launch.launch_key import LaunchKeys
from kb_engine.program.kernel_lines import kernel_lines
from kb_engine.program.runner import KernelCall
from kb_engine.program.tensors import Tensor
from kb_messages import DType

ROOT = Path(__file__).parent


def wait_for_copy(tl: Language, a: TensorRef, b: TensorRef) -> None:
    tl.store(b[:2, :3], tl.load(a[:2, :3]))


def test_each_block_of_each_copy_has_a_span_of_its_own_size() -> None:
    rows, cols = (0, 2, 3), (0, 3, 8, 9)
    first = ((0, 4096, 8192), (12288, 16384, 20480))
    second = tuple(tuple(address + (1 << 20) for address in row) for row in first)
    a = Tensor(
        name="a", shape=(3, 9), dtype=DType.F16, row_bounds=rows, col_bounds=cols, addresses=first, copies=(second,)
    )
    b = Tensor(name="b", shape=(2, 3), dtype=DType.F32, row_bounds=(0, 2), col_bounds=(0, 3), addresses=((1 << 22,),))
    call = KernelCall(wait_for_copy, [a.ref, b.ref], ROOT, Language, kernel_lines(ROOT))
    key = LaunchKeys(64).of(call, ["pe0"], None)
    assert key is not None
    nbytes = [2 * 3 * 2, 2 * 5 * 2, 2 * 1 * 2, 1 * 3 * 2, 1 * 5 * 2, 1 * 1 * 2]
    begins = [4096 * number for number in range(6)]
    spans = [(begin, begin + size) for begin, size in zip(begins, nbytes, strict=True)]
    copied = [(begin + (1 << 20), end + (1 << 20)) for begin, end in spans]
    assert key.spans == [*spans, *copied, (1 << 22, (1 << 22) + 24)]
