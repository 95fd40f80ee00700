"""`tl.materialize`: values that compute ops make, while the kernel runs. Times are those of test_math_commands.py."""

from pathlib import Path

import numpy as np
import pytest

from kb_dataexec import Executor, FolderLogWriter, MemoryLogWriter, read_log
from kb_engine import Engine, Host, read_tensor
from kb_engine.observe import Callbacks
from kb_messages import KernelError


class Chip:
    """A host of the round chip, and the memory that pass 2 makes of its log."""

    def __init__(self, topology, writer, observers=()):
        self.host = Host(Engine(topology, writer, observers), Path(__file__).parent)
        self.writer = writer

    def pass_2(self):
        self.host.engine.close_log()
        in_memory = isinstance(self.writer, MemoryLogWriter)
        log = self.writer.close() if in_memory else read_log(self.writer._folder)
        return Executor(log, self.host.engine.initial_memory).run()


@pytest.fixture(params=["memory", "folder"])
def chip_of(request, chip, tmp_path):
    """Builds chips whose logs are kept in memory, or streamed to a folder each."""
    writers = []

    def build(*changes, observers=()):
        folder = tmp_path / f"log{len(writers)}"
        writers.append(MemoryLogWriter() if request.param == "memory" else FolderLogWriter(folder))
        return Chip(chip(*changes), writers[-1], observers)

    yield build
    for writer in writers:
        writer.abort()


RNG = np.random.default_rng(7)
A = RNG.standard_normal((16, 16)).astype(np.float32)
B = RNG.standard_normal((16, 16)).astype(np.float32)


def close(got, expected):
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=1e-5, atol=1e-5)


def test_a_result_of_math_can_be_looked_at(chip_of):
    seen = {}

    def kernel(tl, a):
        x = tl.exp(tl.load(a))
        assert x.is_pending
        known = tl.materialize(x)
        assert known is x
        seen.update(data=known.data, element=known[2, 3], total=float(tl.materialize(tl.sum(tl.sum(x, 0), 1))))

    chip = chip_of()
    chip.host.launch(kernel, chip.host.tensor("a", A, "f32"), pes=[0])
    expected = np.exp(A.astype(np.float64))
    close(seen["data"], expected)
    assert seen["element"] == seen["data"][2, 3].item()
    close(seen["total"], expected.sum())


def test_the_data_costs_no_simulated_time(chip_of):
    def kernel(tl, a, asks):
        x = tl.exp(tl.load(a))
        if asks:
            tl.materialize(x)
        tl.store(a, x)

    ends = []
    for asks in (False, True):
        chip = chip_of()
        ends.append(chip.host.launch(kernel, chip.host.tensor("a", A, "f32"), asks, pes=[0]).end_ps)
    assert ends[0] == ends[1]


def test_materialize_waits_for_a_composite_as_wait_does(simulate):
    def kernel(tl, a, b, c, how):
        handle = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
        getattr(tl, how)(handle)
        tl.load(c)

    # The composite ends at 195400 (test_pipeline.py); the load takes 7000 to begin and 44240.
    shapes = [(16, 16, "f16")] * 3
    for how in ("wait", "materialize"):
        run = simulate(lambda tl, a, b, c, how=how: kernel(tl, a, b, c, how), *shapes)
        assert run.times(1, 0) == [(202400, 202400, 246640, 246640)]
        assert run.end_ps == 195400 + 7000 + 44240


def test_a_composite_in_memory_is_concrete_for_later_loads(chip_of):
    seen = {}

    def kernel(tl, a, b, c):
        handle = tl.composite("gemm", a, b, out=c)
        tl.materialize(handle)
        part = tl.load(c[3:5, 2:9])
        assert not part.is_pending
        seen.update(handle=handle.data, part=part.data)

    chip = chip_of()
    a, b = chip.host.tensor("a", A, "f32"), chip.host.tensor("b", B, "f32")
    c = chip.host.empty("c", (16, 16), "f32")
    chip.host.launch(kernel, a, b, c, pes=[0])
    expected = A.astype(np.float64) @ B
    close(seen["handle"], expected)
    close(seen["part"], expected[3:5, 2:9])
    close(chip.host.read(c), expected)
    close(read_tensor(chip.pass_2(), c), expected)


def test_a_branch_follows_the_value_and_pass_2_computes_the_same(chip_of):
    steps = []

    def kernel(tl, x):
        """Halve until the largest element is below 1."""
        value = tl.load(x)
        while True:
            largest = tl.max(tl.max(tl.abs(value), 0), 1)
            if tl.materialize(largest)[0, 0] < 1:
                break
            steps.append(float(largest))
            value = value * 0.5
        tl.store(x, value)

    chip = chip_of()
    x = chip.host.tensor("x", 8 * A, "f32")
    chip.host.launch(kernel, x, pes=[0])
    largest = np.abs(8 * A).max()
    n_steps = int(np.floor(np.log2(largest))) + 1
    assert steps == [largest * 0.5**step for step in range(n_steps)]
    np.testing.assert_array_equal(read_tensor(chip.pass_2(), x), 8 * A * np.float32(0.5**n_steps))


def test_tcm_that_was_given_back_and_taken_again_keeps_values_apart(chip_of):
    """The bytes of the first exp are taken by the second product before the first is asked for through memory."""
    seen = {}

    def kernel(tl, a, b, c):
        x = tl.load(a)
        first = tl.exp(x)
        tl.store(c, first)
        tl.free(first)
        second = x * 2.0
        assert second.matrix.address == first.matrix.address
        seen.update(second=tl.materialize(second).data, first=tl.materialize(tl.load(c)).data)

    chip = chip_of()
    tensors = [chip.host.tensor(name, A, "f32") for name in "abc"]
    chip.host.launch(kernel, *tensors, pes=[0])
    close(seen["second"], 2 * A.astype(np.float64))
    close(seen["first"], np.exp(A.astype(np.float64)))


def test_host_writes_between_launches_count(chip_of):
    seen = []

    def kernel(tl, a):
        seen.append(tl.materialize(tl.load(a) + 1.0).data)

    chip = chip_of()
    a = chip.host.tensor("a", A, "f32")
    for data in (A, B, A + B):
        chip.host.write(a, data)
        chip.host.launch(kernel, a, pes=[0])
    for got, data in zip(seen, (A, B, A + B), strict=True):
        np.testing.assert_array_equal(got, data + np.float32(1))


def test_a_value_of_another_pe_that_is_done_is_computed(chip_of, two_pes):
    seen = []

    def kernel(tl, a, c, flag):
        if tl.program_id() == 0:
            tl.store(c, tl.exp(tl.load(a)))
        else:
            for _ in range(20):
                tl.load(flag)
            seen.append(tl.materialize(tl.load(c)).data)

    chip = chip_of(*two_pes)
    a, c, flag = (chip.host.tensor(name, A, "f32") for name in "acf")
    chip.host.launch(kernel, a, c, flag)
    close(seen[0], np.exp(A.astype(np.float64)))


def test_a_value_of_another_pe_that_is_not_done_is_refused(chip_of, two_pes):
    def kernel(tl, a, b, c):
        if tl.program_id() == 0:
            tl.composite("gemm", a, b, out=c)
        else:
            tl.materialize(tl.load(c))

    chip = chip_of(*two_pes)
    tensors = [chip.host.tensor(name, A, "f32") for name in "abc"]
    with pytest.raises(KernelError) as caught:
        chip.host.launch(kernel, *tensors)
    first = kernel.__code__.co_firstlineno
    assert str(caught.value) == (
        f"test_materialize.py:{first + 4}: got a look at a value that depends on the gemm of "
        f"test_materialize.py:{first + 2} on sip0.cube0.pe0, which is not done, needs finished commands; "
        "launch the code that reads it as a kernel of its own, after this one"
    )


def test_a_missing_wait_is_refused(chip_of):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c)
        tl.materialize(tl.load(c[0:1, 0:1]))

    chip = chip_of()
    tensors = [chip.host.tensor(name, np.tile(A, (2, 2)), "f32") for name in "abc"]
    with pytest.raises(KernelError) as caught:
        chip.host.launch(kernel, *tensors, pes=[0])
    first = kernel.__code__.co_firstlineno
    assert str(caught.value) == (
        f"test_materialize.py:{first + 2}: got a look at a value that depends on the gemm of "
        f"test_materialize.py:{first + 1}, which is not done, needs finished commands; tl.wait for its handle first"
    )


def test_what_is_unfinished_and_not_needed_does_not_matter(chip_of):
    seen = []

    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c)
        seen.append(tl.materialize(tl.exp(tl.load(a))).data)

    chip = chip_of()
    tensors = [chip.host.tensor(name, A, "f32") for name in "abc"]
    chip.host.launch(kernel, *tensors, pes=[0])
    close(seen[0], np.exp(A.astype(np.float64)))


def test_without_a_log_it_is_refused(chip_host):
    def kernel(tl, a):
        tl.materialize(tl.exp(tl.load(a)))

    host = chip_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("a", A, "f32"), pes=[0])
    line = f"test_materialize.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == (
        f"{line}: tl.exp of {line}: got tl.materialize of its pending result, needs a value that exists while the "
        "kernel runs; results of compute ops are known only after the run, or where a kernel looks at them in a run "
        "with an op log"
    )


def test_a_kernel_steers_by_computed_values_and_the_observers_are_told_of_its_waits(chip_of):
    """A look lasts until exp is stored: 3000 to issue the command, 4000 to take it, a FETCH of 512 bytes in 3560, exp
    of 256 elements in 64000, and a STORE of 3560."""
    looks = []

    def kernel(tl, a, c):
        powers = tl.exp(tl.load(a))
        if powers[0, 0] > 0.5:
            tl.store(c[0:1, :], tl.load(a[1:2, :]))

    chip = chip_of(observers=[Callbacks(on_look=lambda *look: looks.append(look))])
    rows = np.repeat(np.arange(16, dtype=np.float16)[:, None], 16, axis=1)
    tensors = [chip.host.tensor(name, rows, "f16") for name in "ac"]
    chip.host.launch(kernel, *tensors, pes=[0])
    assert read_tensor(chip.pass_2(), tensors[1])[0, 0] == 1
    line = f"test_materialize.py:{kernel.__code__.co_firstlineno + 2}"
    assert looks == [("sip0.cube0.pe0", line, 7000 + 3560 + 64000 + 3560)]


def test_what_is_concrete_needs_no_log(chip_host):
    seen = []
    host = chip_host()
    host.launch(lambda tl, a: seen.append(tl.materialize(tl.load(a))[1, 2]), host.tensor("a", A, "f32"), pes=[0])
    assert seen == [A[1, 2].item()]


@pytest.mark.parametrize(
    ("misuse", "got", "needs"),
    [
        (lambda tl, x: tl.materialize(3), "tl.materialize of an int", "a result of tl.load, math or a composite"),
        (
            lambda tl, x: tl.materialize(x.T),
            "tl.materialize of a TransposedHandle",
            "a result of tl.load, math or a composite",
        ),
        (lambda tl, x: (tl.free(x), tl.materialize(x)), "a RecordedTensor after tl.free", "one that still holds TCM"),
    ],
)
def test_misuse_is_refused(chip_of, misuse, got, needs):
    def kernel(tl, a):
        misuse(tl, tl.exp(tl.load(a)))

    chip = chip_of()
    with pytest.raises(KernelError, match=rf"got {got}, needs {needs}$"):
        chip.host.launch(kernel, chip.host.tensor("a", A, "f32"), pes=[0])


@pytest.mark.parametrize("iterations", [40])
def test_a_loop_executes_every_record_once(chip_of, iterations):
    def kernel(tl, a, c):
        value = tl.load(a)
        for _ in range(iterations):
            tl.store(c, tl.exp(tl.load(c)))  # nobody asks for it
            after = value * 0.5
            tl.free(value)
            value = after
            total = tl.sum(value, 1)
            tl.materialize(total)
            tl.free(total)
        tl.store(a, value)

    chip = chip_of()
    a, c = (chip.host.tensor(name, 0 * A, "f32") for name in "ac")
    chip.host.launch(kernel, a, c, pes=[0])
    execution = chip.host.engine.session.materialize._execution
    n_ops = chip.host.engine.session.n_ops
    assert n_ops == 1 + iterations * 11 + 1
    assert n_ops - 2 * 11 - 1 <= execution.n_executed + len(execution._ops) <= n_ops - 1
    assert execution.n_executed >= iterations * 6


def test_a_constant_that_is_logged_before_its_record_is_there_when_it_is_used(chip_of):
    seen = {}

    def kernel(tl, a):
        first, second = tl.exp(tl.load(a)), tl.exp(tl.load(a))
        tl.wait(second)
        tl.materialize(first)
        padded = tl.load(a[8:24], mask=(tl.arange(16) < 8)[:, None], other=0.5)  # issued, not done
        tl.materialize(second)
        seen.update(padded=tl.materialize(tl.exp(padded)).data)

    chip = chip_of(("issue_ns: 3", "issue_ns: 3, issue: scoreboard"))
    chip.host.launch(kernel, chip.host.tensor("a", A, "f32"), pes=[0])
    close(seen["padded"], np.exp(np.vstack([A[8:].astype(np.float64), np.full((8, 16), 0.5)])))
