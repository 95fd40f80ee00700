"""Refused constructs, one kernel each: the run ends with one sentence, at the line of the kernel."""

import numpy as np
import triton
import triton.language as tl

from kb_messages import KbError


@triton.jit
def assembly_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.inline_asm_elementwise("neg $0, $1", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


def refuse_inline_assembly():
    """Inline assembly"""
    assembly_kernel[(1,)](np.zeros(8, np.float32), BLOCK=8)


@triton.jit
def float64_kernel(x_ptr, BLOCK: tl.constexpr):
    at = x_ptr + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) + 1)


def refuse_float64():
    """Arithmetic on float64"""
    float64_kernel[(1,)](np.zeros(8), BLOCK=8)


@triton.jit
def vendor_kernel(x_ptr):
    tl.store(x_ptr, tl.extra.cuda.globaltimer())


def refuse_extensions_of_a_vendor():
    """Extensions of one vendor"""
    vendor_kernel[(1,)](np.zeros(1, np.int64))


@triton.jit
def misspelt_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.sofmax(tl.load(x_ptr + tl.arange(0, BLOCK)))


def refuse_missing_names():
    """A name that `tl` does not have"""
    misspelt_kernel[(1,)](np.zeros(8, np.float32), BLOCK=8)


@triton.jit
def meeting_kernel(count_ptr, N: tl.constexpr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < N:
        pass


def refuse_more_programs_at_once_than_pes():
    """A grid whose programs wait for each other, larger than the number of PEs"""
    n_pes = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    meeting_kernel[(n_pes + 1,)](np.zeros(1, np.int32), N=n_pes + 1)


@triton.jit
def beyond_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def refuse_accesses_beyond_an_array():
    """An access beyond the allocation of an array"""
    beyond_kernel[(1,)](np.zeros(5, np.float32), BLOCK=8)


@triton.jit
def block_steered_kernel(x_ptr, BLOCK: tl.constexpr):
    if tl.load(x_ptr + tl.arange(0, BLOCK)) > 0:
        tl.store(x_ptr, 1.0)


def refuse_the_truth_of_a_block():
    """A branch on a block"""
    block_steered_kernel[(1,)](np.zeros(8, np.float32), BLOCK=8)


def main():
    for name, refuse in list(globals().items()):
        if not name.startswith("refuse_"):
            continue
        try:
            refuse()
        except KbError as error:
            print(f"{refuse.__doc__}: {error}")
        else:
            raise AssertionError(f"{name} ran to its end")


if __name__ == "__main__":
    main()
