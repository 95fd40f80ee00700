"""Python's errors for wrong uses of `tl`, converted to errors that name a use that works."""

import re

import numpy as np
import pytest

from kb_engine.program.author.author_errors import UserCodeError
from kb_messages import KernelError

A = np.arange(256, dtype=np.float16).reshape(16, 16) / 16


def launch(host, kernel):
    return host.launch(kernel, host.tensor("a", A, "f16"), pes=[0])


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            lambda tl, a: tl.stor(a, a),
            "got tl.stor, which tl does not have, needs a function that it has; did you mean tl.store",
        ),
        (lambda tl, a: tl.quux(), "got tl.quux, which tl does not have, needs a function that it has; docs/tl.md "),
        (lambda tl, a: tl.exp(tl.load(a), 2), "got tl.exp with 2 arguments, needs tl.exp(x)"),
        (lambda tl, a: tl.exp(), "got tl.exp without 'x', needs tl.exp(x)"),
        (
            lambda tl, a: tl.sum(tl.load(a), dim=1),
            "got tl.sum with dim=, needs tl.sum(x, axis=None, keep_dims=True)",
        ),
        (
            lambda tl, a: tl.sum(1, x=2),
            "got tl.sum that got multiple values for argument 'x', needs tl.sum(x, axis=None, keep_dims=True)",
        ),
        (
            lambda tl, a: tl.load(a).sum(),
            "got .sum of a value in TCM, needs a name that such a value has; did you mean tl.sum(x, axis=None, ",
        ),
        (
            lambda tl, a: (tl.load(a) + 1).shap,
            "got .shap of a value in TCM, needs a name that such a value has; did you",
        ),
        (
            lambda tl, a: tl.load(a).mean(),
            "got .mean of a value in TCM, needs a name that such a value has; docs/tl.md",
        ),
        (lambda tl, a: tl.load(a) @ tl.load(a), "got LoadedTensor @ LoadedTensor, needs tl.dot(a, b) of two"),
        (
            lambda tl, a: a @ tl.exp(tl.load(a)),
            "got TensorRef @ RecordedTensor, needs tl.dot(a, b) of two values in TCM",
        ),
        (lambda tl, a: a + 1, "got TensorRef + int, needs values in TCM; tl.load brings elements of a tensor there"),
        (lambda tl, a: 2 * a[0:4], "got int * TensorRef, needs values in TCM; tl.load brings"),
        (lambda tl, a: -a, "got - of a TensorRef, needs values in TCM; tl.load brings"),
        (lambda tl, a: tl.where(a > 0, 1.0, 2.0), "got TensorRef > int, needs values in TCM; tl.load brings"),
        (lambda tl, a: tl.load(a) ** 2, "got LoadedTensor ** int, needs tl.pow("),
        (lambda tl, a: abs(tl.load(a)), "got abs of a LoadedTensor, needs tl.abs(x)"),
        (lambda tl, a: a.__setitem__(0, 1), "got an assignment to elements in memory, needs tl.store(x[...], value)"),
        (lambda tl, a: tl.load(a).__setitem__(0, 1), "got an assignment to elements, needs a new value; tl.where("),
        (
            lambda tl, a: tl.load(a) and 1,
            "got the truth value of 16 x 16 elements, needs one element; reduce the value first; & and tl.where go",
        ),
    ],
)
def test_wrong_uses_of_the_language_are_refused(toy_host, use, said):
    with pytest.raises(KernelError, match="test_wrong_uses") as caught:
        launch(toy_host(), use)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: int("x"), "ValueError: invalid literal"),
        (lambda: len(1, 2), r"TypeError: len\(\) takes exactly one argument \(2 given\)"),
        (lambda: Own().exp(1), r"TypeError: Own.exp\(\) takes 1 positional argument but 2 were given"),
        (lambda: Own().pow, "AttributeError: 'Own' object has no attribute 'pow'"),
    ],
)
def test_errors_of_the_kernels_own_python_keep_their_words(toy_host, use, said):
    with pytest.raises(UserCodeError, match=said):
        launch(toy_host(), lambda tl, a: use())


class Own:
    def exp(self):
        return self


@pytest.mark.parametrize("load", ["load", "load_async"])
def test_a_load_of_unwritten_bytes_names_a_fix(toy_host, load):
    def kernel(tl, a):
        getattr(tl, load)(a[4:8, :])

    host = toy_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.empty("a", A.shape, "f16"), pes=[0])
    assert re.fullmatch(
        r"test_wrong_uses\.py:\d+: \S+ \+ \w+ \(address \w+\): got a read of 4 x 16 f16 whose bytes "
        r"from \w+ on were never written, first that of a\[4, 0\], needs initialised bytes; store to these elements "
        r"before, or give the tensor data when it is made",
        str(caught.value),
    )
