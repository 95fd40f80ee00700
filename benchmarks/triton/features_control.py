"""Steering and launches: functions, branches, loops, tuning, decorators."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def bent(x, slope):
    return tl.where(x >= 0, x, x * slope)


@triton.jit
def branching_kernel(x_ptr, y_ptr, n, mode, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if mode > 1:
        return
    if mode == 0:
        y = bent(x, 0.5)
    else:
        y = bent(bent(x, -1.0), 2.0)
    tl.store(y_ptr + at, y, mask=at < n)


def show_nested_functions(rng):
    """Nested functions, `where`, branches and returns on scalars known at run time"""
    x = rng.standard_normal(13, np.float32)
    for mode, expected in ((0, np.where(x >= 0, x, x / 2)), (1, np.abs(x)), (2, np.zeros_like(x))):
        y = np.zeros_like(x)
        branching_kernel[(1,)](x, y, 13, mode, BLOCK=16)
        np.testing.assert_array_equal(y, expected)


@triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 64)], key=["n"], reset_to_zero=["count_ptr"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + at)
    else:
        x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, -x, mask=at < n)
    tl.atomic_add(count_ptr, 1)


def show_tuning(rng):
    """`autotune`, `heuristics`, `Config`, `reset_to_zero`, a grid that is a function"""
    for n in (128, 100):
        x = rng.standard_normal(n, np.float32)
        y, count = np.zeros_like(x), np.zeros(1, np.int32)
        tuned_kernel[lambda given: (triton.cdiv(given["n"], given["BLOCK"]),)](x, y, count, n)
        np.testing.assert_array_equal(y, -x)
        assert count[0] == triton.cdiv(n, tuned_kernel.best_config.kwargs["BLOCK"])


class Counting:
    """A decorator of the kind that libraries put around kernels: it counts launches, and passes the rest on."""

    def __init__(self, kernel):
        self.kernel, self.n_launches = kernel, 0
        self.arg_names = kernel.arg_names

    def __getitem__(self, grid):
        return lambda *args, **named: self.run(*args, grid=grid, **named)

    def run(self, *args, grid, **named):
        self.n_launches += 1
        return self.kernel[grid](*args, **named)


@Counting
@triton.jit
def counted_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 3)


def show_decorators_of_others(rng):
    """Decorators of libraries around a kernel"""
    x = np.zeros(8, np.int32)
    counted_kernel[(1,)](x, BLOCK=8)
    assert x.tolist() == [3] * 8
    assert (counted_kernel.n_launches, counted_kernel.arg_names) == (1, ["x_ptr", "BLOCK"])


@triton.jit
def segments_kernel(x_ptr, start_ptr, sum_ptr, BLOCK: tl.constexpr):
    first, last = tl.load(start_ptr + tl.program_id(0)), tl.load(start_ptr + tl.program_id(0) + 1)
    if first == last:
        tl.store(sum_ptr + tl.program_id(0), -1.0)
        return
    total = tl.zeros([BLOCK], tl.float32)
    while first < last:
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < last, other=0.0)
        first += BLOCK
    tl.store(sum_ptr + tl.program_id(0), tl.sum(total))


def show_control_by_loaded_integers(rng):
    """Loops and branches on loaded integers"""
    x, start = rng.standard_normal(50, np.float32), np.array([0, 3, 3, 40, 50], np.int32)
    sums = np.zeros(4, np.float32)
    segments_kernel[(4,)](x, start, sums, BLOCK=8)
    expected = [x[:3].sum(), -1, x[3:40].sum(), x[40:].sum()]
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-5)


@triton.jit
def polynomial_kernel(x_ptr, y_ptr, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.full([BLOCK], 1.0, tl.float32)
    for power in tl.static_range(DEGREE):
        y = y * x + (power + 1)
    tl.store(y_ptr + at, y)


def show_static_range(rng):
    """`static_range`"""
    x, y = rng.standard_normal(8, np.float32), np.zeros(8, np.float32)
    polynomial_kernel[(1,)](x, y, DEGREE=3, BLOCK=8)
    np.testing.assert_allclose(y, np.polyval([1, 1, 2, 3], x.astype(np.float64)), rtol=1e-5, atol=1e-5)


@triton.jit
def root_kernel(x_ptr, root_ptr, step_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    root = tl.maximum(x, 1.0)
    steps = 0
    while tl.abs(root * root - x) > 1e-4 * x:
        root = (root + x / root) * 0.5
        steps += 1
    tl.store(root_ptr + tl.program_id(0), root)
    tl.store(step_ptr + tl.program_id(0), steps)


def show_control_by_computed_values(rng):
    """Loops and branches on computed values"""
    x = np.array([0.25, 2, 144], np.float32)
    roots, steps = np.zeros_like(x), np.zeros(3, np.int32)
    root_kernel[(3,)](x, roots, steps)
    np.testing.assert_allclose(roots, np.sqrt(x), rtol=1e-4)
    assert (steps > 1).all()


@triton.jit
def softened(x, limit):
    if x > limit:
        return limit
    if x > 0:
        return x - x * x / (4 * limit)
    return x


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, n, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.map_elementwise(softened, x, limit), mask=at < n)


def show_functions_of_elements(rng):
    """`tl.map_elementwise` of a function with branches"""
    x = 2 * rng.standard_normal(45, np.float32)
    y = np.zeros_like(x)
    elementwise_kernel[(3,)](x, y, 45, 1.5, BLOCK=16)
    np.testing.assert_allclose(y, np.where(x > 1.5, 1.5, np.where(x > 0, x - x * x / 6, x)), rtol=1e-6, atol=1e-6)


def main():
    for name, show in list(globals().items()):
        if name.startswith("show_"):
            show(np.random.default_rng(0))


if __name__ == "__main__":
    main()
