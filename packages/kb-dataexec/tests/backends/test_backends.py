import re
import sys
import threading

import numpy as np
import pytest
from dataexec_math_log import EpilogueProblem

from kb_dataexec.backends import BackendError, current, load_backend, using
from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_dataexec.execute.executor import Executor
from kb_dataexec.verify.compare import compare


class Counting(NumpyBackend):
    name = "counting"

    def __init__(self):
        self.calls = []

    def matmul(self, a, b):
        self.calls.append("matmul")
        return super().matmul(a, b)

    def apply(self, op, arguments, axis):
        self.calls.append(op)
        return super().apply(op, arguments, axis)


def expect(text):
    return pytest.raises(BackendError, match=f"^{re.escape(text)}$")


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_the_executor_computes_with_the_backend_it_is_given(mode):
    problem, backend = EpilogueProblem(16, 16, 32, (8, 8, 8)), Counting()
    after = Executor(problem.log(), problem.memory(), mode, backend).run()
    assert compare("c", problem.result(after), *problem.reference()).ok
    assert set(backend.calls) == {"matmul", "add", "mul", "relu", "copy"}
    assert current().name == "numpy"


def test_a_backend_lasts_as_long_as_its_block_and_stays_in_its_thread():
    seen = []
    with using(Counting()):
        inside = current().name
        thread = threading.Thread(target=lambda: seen.append(current().name))
        thread.start()
        thread.join()
    assert (inside, seen, current().name) == ("counting", ["numpy"], "numpy")


def test_integers_are_exact_however_they_are_multiplied():
    a, b = np.array([[2**31 - 1, -5]], np.int32), np.array([[2**30], [7]], np.int64)
    exact = (2**31 - 1) * 2**30 - 35
    assert load_backend("numpy").matmul(a, b).tolist() == [[(exact + 2**31) % 2**32 - 2**31]]


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int32])
def test_stacks_of_matrices_are_multiplied_one_by_one(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((3, 4, 5), (3, 5, 2)))
    got = load_backend("numpy").matmul(a, b)
    assert got.dtype == (np.float32 if dtype is np.float16 else np.int32)
    assert (got == [x.astype(np.int64) @ y.astype(np.int64) for x, y in zip(a, b, strict=True)]).all()


def test_a_backend_that_is_not_installed_says_which_extra_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with expect("backend torch: got no module torch, needs the extra torch; pip install 'kb-dataexec[torch]'"):
        load_backend("torch")


def test_an_unknown_backend_is_refused():
    with expect("backend: got 'abacus', needs one of numpy, torch"):
        load_backend("abacus")


def test_numpy_has_no_devices():
    with expect("backend numpy: got device 'cuda', needs 'cpu'; use the backend torch for other devices"):
        load_backend("numpy", "cuda")
