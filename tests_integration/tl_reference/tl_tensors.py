"""Tensors in memory

The argument of a kernel for an array or a tensor. Indexing makes a reference, and moves nothing.
"""

from tl_given import NO_COMMAND, gives


@gives(lambda cube: cube[1, 0:4:2, :], NO_COMMAND)
def tensor_index(tl, cube, y):
    tl.store(y, tl.load(cube[1, 0:4:2, :]))


@gives(lambda x: x, NO_COMMAND)
def tensor_shape(tl, x, y):
    for number in range(x.shape[0]):
        tl.store(y[number : number + 1, :], tl.load(x[number : number + 1, :]))


@gives(lambda a: a, NO_COMMAND)
def tensor_dtype(tl, a, y):
    tl.store(y, tl.load(a).to(y.dtype))


@gives(lambda a, b: b.T @ a.T, NO_COMMAND)
def tensor_T(tl, a, b, y):
    tl.wait(tl.composite("gemm", b.T, a.T, out=y))


@gives(lambda parts: 2 * parts, NO_COMMAND, pes=range(8))
def tensor_shard(tl, parts, y):
    mine = parts.shard(tl.program_id())
    tl.store(y[mine.row_slice, :], tl.load(mine) * 2)


@gives(lambda parts: 2 * parts, NO_COMMAND)
def tensor_num_shards(tl, parts, y):
    for mine in map(parts.shard, range(parts.num_shards)):
        tl.store(y[mine.row_slice, :], tl.load(mine) * 2)


@gives(lambda parts: parts, NO_COMMAND, pes=range(8))
def tensor_row_slice(tl, parts, y):
    mine = parts.shard(tl.program_id())
    tl.store(y[mine.row_slice, mine.col_slice], tl.load(mine))


@gives(lambda x: x[:, 2:6], NO_COMMAND)
def tensor_col_slice(tl, x, y):
    middle = x[:, 2:6]
    tl.store(y, tl.load(x[:, middle.col_slice]))
