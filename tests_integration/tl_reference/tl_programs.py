"""Programs

A launch runs the kernel once for each PE, or once for each point of its grid. Each run is a program.
"""

import numpy as np
from tl_given import NO_COMMAND, gives


@gives(lambda x: 2 * x, NO_COMMAND, pes=[0, 1], grid=(4,))
def tl_program_id(tl, x, y):
    row = slice(tl.program_id(0), tl.program_id(0) + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2)


@gives(lambda x: x + 1, NO_COMMAND, pes=[0, 1])
def tl_num_programs(tl, x, y):
    for number in range(tl.program_id(), x.shape[0], tl.num_programs()):
        row = slice(number, number + 1)
        tl.store(y[row, :], tl.load(x[row, :]) + 1)


@gives(lambda x: np.where(np.arange(8) < 5, x, 0), NO_COMMAND)
def tl_arange(tl, x, y):
    mask = (tl.arange(0, 4) < 4)[:, None] & (tl.arange(0, 8) < 5)
    tl.store(y, tl.load(x, mask, other=0.0))
