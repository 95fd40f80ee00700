"""Shapes

Views of the same bytes. None of them moves a byte.
"""

from tl_given import NO_COMMAND, gives


@gives(lambda x: x.reshape(8, 4) + 1, NO_COMMAND)
def tl_reshape(tl, x, y):
    tl.store(y, tl.reshape(tl.load(x), 8, -1) + 1)


@gives(lambda x: x.ravel(), NO_COMMAND)
def tl_ravel(tl, x, y):
    tl.store(y, tl.ravel(tl.load(x)))


@gives(lambda row, x: row[None, :] * x, NO_COMMAND)
def tl_expand_dims(tl, row, x, y):
    tl.store(y, tl.expand_dims(tl.load(row), 0) * tl.load(x))


@gives(lambda cube: cube.transpose(1, 0, 2), NO_COMMAND + "; the store of a permuted value moves it in pieces")
def tl_permute(tl, cube, y):
    tl.store(y, tl.permute(tl.load(cube), 1, 0, 2))
