"""Cross entropy of logits and labels, and its gradient: log(sum exp(x)) - x[label], and softmax(x) - [label]."""

import numpy as np
import triton
import triton.language as tl
from numbers_of import asked_types, assert_near, exact, normal

IGNORED = -100


@triton.jit
def cross_entropy_kernel(x_ptr, label_ptr, loss_ptr, grad_ptr, n, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    at = tl.arange(0, BLOCK)
    if label == IGNORED:
        for start in range(0, n, BLOCK):
            nothing = tl.zeros([BLOCK], grad_ptr.dtype.element_ty)
            tl.store(grad_ptr + row * n + start + at, nothing, mask=start + at < n)
        tl.store(loss_ptr + row, 0.0)
    else:
        largest = float("-inf")
        total = 0.0
        for start in range(0, n, BLOCK):
            x = tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(largest, tl.max(x, axis=0))
            total = total * tl.exp(largest - higher) + tl.sum(tl.exp(x - higher), axis=0)
            largest = higher
        level = largest + tl.log(total)
        tl.store(loss_ptr + row, level - tl.load(x_ptr + row * n + label).to(tl.float32))
        for start in range(0, n, BLOCK):
            x = tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=float("-inf")).to(tl.float32)
            grad = tl.exp(x - level) - tl.where(start + at == label, 1.0, 0.0)
            tl.store(grad_ptr + row * n + start + at, grad.to(grad_ptr.dtype.element_ty), mask=start + at < n)


def cross_entropy(logits, labels, block=64):
    """The loss of each row in f32, and the gradient of the logits."""
    rows, n = logits.shape
    loss, grad = np.empty(rows, np.float32), np.empty_like(logits)
    cross_entropy_kernel[(rows,)](logits, labels, loss, grad, n, IGNORED=IGNORED, BLOCK=block)
    return loss, grad


def main():
    rng = np.random.default_rng(0)
    for name in asked_types():
        for rows, n in ((1, 1), (13, 200)):
            logits = normal(rng, (rows, n), name)
            labels = rng.integers(0, n, rows)
            labels[4:5] = IGNORED
            (wide,) = exact(logits)
            counted = labels != IGNORED
            level = np.log(np.exp(wide).sum(axis=1))
            chosen = np.where(counted, labels, 0)
            expected = np.where(counted, level - wide[np.arange(rows), chosen], 0)
            gradient = np.exp(wide - level[:, None])
            gradient[np.arange(rows), chosen] -= 1
            loss, grad = cross_entropy(logits, labels)
            assert_near(loss, expected, "f32")
            assert_near(grad, gradient * counted[:, None], name)


if __name__ == "__main__":
    main()
