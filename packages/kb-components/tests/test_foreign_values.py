"""Values of other programs and of earlier runs in a kernel: each use of one is refused at its line."""

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_messages import KbError, KernelError

SAVED = []
NEEDS = (
    "needs values of the program that uses them; tl.load the elements in this program: programs pass data to others "
    "through memory"
)


@pytest.fixture(autouse=True)
def forget_values():
    yield
    SAVED.clear()


def operator_on_the_right(tl, x, y):
    tl.store(y, tl.load(x) + SAVED[0])


def operator_on_the_left(tl, x, y):
    tl.store(y, SAVED[0] * 2.0 + tl.load(x))


def function(tl, x, y):
    tl.store(y, tl.exp(SAVED[0]))


def stored(tl, x, y):
    tl.store(y, SAVED[0])


def stored_view(tl, x, y):
    tl.store(y, SAVED[0].reshape(32, 8).reshape(16, 16))


def accumulator(tl, x, y):
    tl.dot(tl.load(x), tl.load(x), SAVED[0])


def factor(tl, x, y):
    tl.dot(SAVED[0], tl.load(x))


def wait(tl, x, y):
    tl.wait(SAVED[0])


def printed(tl, x, y):
    tl.print("x", SAVED[0] * 2.0)


def free(tl, x, y):
    tl.free(SAVED[0])


def look(tl, x, y):
    float((SAVED[0] + 1.0)[0, 0])


def loaded(tl, x):
    return tl.load(x)


def computed(tl, x):
    return tl.load(x) + 1.0


def multiplied(tl, x):
    return tl.dot(tl.load(x), tl.load(x), 0)


USES = (operator_on_the_right, operator_on_the_left, function, stored, stored_view, factor, printed)
CASES = [*((make, use) for make in (loaded, computed) for use in USES), (multiplied, accumulator), (multiplied, stored)]


def tensors(host):
    zeros = np.zeros((16, 16), np.float32)
    return host.tensor("x", zeros, "f32"), host.tensor("y", zeros, "f32")


def line(use):
    return f"test_foreign_values.py:{use.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(("make", "use"), [*CASES, (loaded, wait), (computed, wait), (loaded, free), (loaded, look)])
def test_a_value_of_a_program_that_runs_is_refused(chip_host, two_pes, make, use):
    def kernel(tl, x, y):
        if tl.program_id() == 0:
            SAVED.append(make(tl, x))
            for _ in range(20):
                tl.load(x)
        else:
            for _ in range(5):
                tl.load(x)
            use(tl, x, y)

    host = chip_host(*two_pes, writer=MemoryLogWriter())
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, *tensors(host))
    owner, user = ("pe1", "pe0") if use is operator_on_the_left else ("pe0", "pe1")
    got = f"a value of sip0.cube0.{owner} in a call of sip0.cube0.{user}"
    if use is look:
        got = "a look at a value of another program, which has to wait for it"
    assert str(caught.value) == f"{line(use)}: got {got}, {NEEDS}"


@pytest.mark.parametrize("another_chip", [False, True])
@pytest.mark.parametrize(("make", "use"), [*CASES, (computed, wait), (loaded, look)])
def test_a_value_of_an_earlier_launch_is_refused(chip_host, make, use, another_chip):
    host = chip_host()
    host.launch(lambda tl, x, y: SAVED.append(make(tl, x)), *tensors(host))
    if another_chip:
        host = chip_host()
    with pytest.raises(KernelError) as caught:
        host.launch(use, *tensors(host))
    assert str(caught.value) == (
        f"{line(use)}: got a value of a program that has ended, in this run or an earlier one, {NEEDS}"
    )


def test_a_value_of_a_launch_that_failed_is_refused(chip_host, two_pes):
    def kernel(tl, x, y):
        SAVED.append(tl.load(x))
        if tl.program_id() == 1:
            raise ValueError
        tl.load(x)
        tl.load(x)

    host = chip_host(*two_pes)
    with pytest.raises(KbError, match="ValueError"):
        host.launch(kernel, *tensors(host))
    for use in (operator_on_the_left, stored):
        host = chip_host()
        with pytest.raises(KernelError, match=f"{line(use)}: got a value of a program that has ended"):
            host.launch(use, *tensors(host))


def test_a_value_of_another_program_of_a_grid_names_both_programs(chip_host, two_pes):
    def kernel(tl, x, y):
        if tl.program_id() == 0:
            SAVED.append(tl.load(x))
            for _ in range(20):
                tl.load(x)
        elif tl.program_id() == 1:
            for _ in range(5):
                tl.load(x)
            stored(tl, x, y)

    host = chip_host(*two_pes)
    with pytest.raises(KernelError, match=r"a value of program 0 on .* in a call of program 1 on"):
        host.launch(kernel, *tensors(host), grid=2)


def test_what_a_command_has_made_can_be_looked_at_after_the_run(chip_host):
    def kernel(tl, x, y):
        SAVED.extend([tl.load(x), tl.dot(tl.load(x), tl.load(x))])

    host = chip_host(writer=MemoryLogWriter())
    host.launch(kernel, *tensors(host))
    for each in SAVED:
        np.testing.assert_array_equal(each.data, np.zeros((16, 16), np.float32))
