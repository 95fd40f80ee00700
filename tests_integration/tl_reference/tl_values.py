"""Values in TCM

The results of `tl.load`, math and `tl.dot`: `x.shape` is the elements in each dimension. Operators are math, as in the
[table](#operators). Where elements are known, `float(x)`, `int(x)` and `if x:` read a value of one element.
"""

from tl_given import NO_COMMAND, gives

_LOOK = "no command; a look at elements waits for the load that brings them"


@gives(lambda a: a + 1)
def value_to(tl, a, y):
    tl.store(y, tl.load(a).to("f32") + 1)


@gives(lambda a: a @ a.T, NO_COMMAND)
def value_T(tl, a, y):
    rows = tl.load(a)
    tl.store(y, tl.dot(rows, rows.T))


@gives(lambda x: x.reshape(2, 16).sum(axis=1, keepdims=True), NO_COMMAND)
def value_reshape(tl, x, y):
    tl.store(y, tl.sum(tl.load(x).reshape(2, 16), axis=1))


@gives(lambda x: x.ravel(), NO_COMMAND)
def value_ravel(tl, x, y):
    tl.store(y, tl.load(x).ravel())


@gives(lambda x, ids: x * ids[:, None], _LOOK)
def value_index(tl, x, ids, y):
    factors = tl.load(ids)
    if factors[0] > 0:  # loaded elements are known, and read as Python numbers
        tl.store(y, tl.load(x) * factors[:, None])


@gives(lambda a: a, NO_COMMAND)
def value_dtype(tl, a, y):
    loaded = tl.load(a)
    tl.store(y, loaded if loaded.dtype == y.dtype else loaded.to(y.dtype))


@gives(lambda x, ids: x[: ids.max() + 1], _LOOK)
def value_data(tl, x, ids, y):
    last = tl.load(ids).data.max()
    tl.store(y, tl.load(x[: last + 1]))


@gives(lambda x: x, NO_COMMAND)
def value_is_pending(tl, x, y):
    loaded = tl.load(x)
    assert not loaded.is_pending
    assert (loaded + 1).is_pending
    tl.store(y, loaded)


@gives(lambda x: x, NO_COMMAND)
def value_freed(tl, x, y):
    loaded = tl.load(x)
    tl.store(y, loaded)
    tl.free(loaded)
    assert loaded.freed
