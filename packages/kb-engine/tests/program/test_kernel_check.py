"""Kernels that are no plain functions, or take other arguments than their launch has."""

import functools
import inspect

import pytest

from kb_messages import KernelError


async def waits(tl): ...


def yields(tl):
    yield 1


async def both(tl):
    yield 1


def two(tl, x): ...


class Kernel:
    def __init__(self, tl): ...


HERE = "test_kernel_check.py"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (waits, f"launch: got the async function waits ({HERE}:{waits.__code__.co_firstlineno}), needs a kernel that "),
        (both, "launch: got the async function both"),
        (yields, "launch: got the generator yields"),
        (Kernel, "launch: got the class Kernel as a kernel, needs a function"),
        (None, "launch: got a NoneType as a kernel, needs a function"),
        (5, "launch: got an int as a kernel, needs a function"),
        (
            two,
            f"launch: got `tl` and 0 arguments (missing a required argument: 'x'), needs the arguments of two ({HERE}:",
        ),
        (
            lambda: None,
            "launch: got `tl` and 0 arguments (too many positional arguments), needs the arguments of <lambda>",
        ),
        (lambda tl: yields(tl), f"kernel <lambda> ({HERE}:"),
        (lambda tl: waits(tl), f"kernel <lambda> ({HERE}:"),
        (functools.partial(yields), "launch: got the generator partial"),
    ],
)
def test_anything_but_a_kernel_is_refused(toy_host, kernel, said):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(kernel, pes=[0])
    text = str(caught.value)
    assert text.partition("launch: ")[0].endswith(f"{HERE}:{line_of_launch()}: ") or said.startswith("kernel")
    assert text[text.index(said.partition(":")[0]) :].startswith(said)


def line_of_launch() -> int:
    """The line of the launch in the test above."""
    lines = inspect.getsource(test_anything_but_a_kernel_is_refused).splitlines()
    first = test_anything_but_a_kernel_is_refused.__code__.co_firstlineno
    return first + next(number for number, line in enumerate(lines) if ".launch(kernel" in line)


def test_wrong_arguments_name_the_launch_and_the_signature(toy_host):
    def kernel(tl, x, rows: int = 4): ...

    with pytest.raises(
        KernelError, match=r"the arguments of kernel \(test_kernel_check\.py:\d+\)\(tl, x, rows: int = 4\)$"
    ):
        toy_host().launch(kernel, 1, 2, 3, pes=[0])


def test_callable_objects_and_functions_in_c_are_kernels(toy_host):
    toy_host().launch(functools.partial(lambda tl, x: None, x=5), pes=[0])
    toy_host().launch([].append, pes=[0])
