"""Messages and signals

Programs of one launch that wait for each other. [PEs that talk](messages.md) explains slots, credits and deadlocks.
"""

from tl_given import gives

COMMON = "MessageOps"

CALL = "the issue time of PE_CPU, and the wait"


@gives(
    lambda x: x + x[::-1],
    "one DMA write, and the wait for a free slot; the time of the write overlaps the next calls",
    pes=[0, 1],
)
def tl_send(tl, x, y):
    here = tl.program_id()
    mine = tl.load(x[2 * here : 2 * here + 2, :])
    tl.send(mine, 1 - here)
    theirs = tl.recv(1 - here)
    tl.store(y[2 * here : 2 * here + 2, :], mine + tl.flip(theirs, axis=0))


@gives(lambda x: 2 * x, f"{CALL}; nothing is copied", pes=[0, 1])
def tl_recv(tl, x, y):
    if tl.program_id() == 0:
        tl.send(tl.load(x), 1, "input")
    else:
        tl.store(y, tl.recv(0, "input") * 2)


@gives(lambda x: x + 1, "the issue time of PE_CPU; the signal leaves when earlier commands are done", pes=[0, 1])
def tl_signal(tl, x, y):
    half = slice(2 * tl.program_id(), 2 * tl.program_id() + 2)
    tl.store(y[half, :], tl.load(x[half, :]))
    tl.signal(1 - tl.program_id(), "stored")
    tl.wait_for("stored")
    other = slice(2 - half.start, 4 - half.start)
    tl.store(y[other, :], tl.load(y[other, :]) + 1)


@gives(lambda x: x, CALL, pes=[0, 1, 2])
def tl_wait_for(tl, x, y):
    if tl.program_id() > 0:
        tl.signal(0, ("ready", 1))
    else:
        tl.wait_for(("ready", 1), 2)
        tl.store(y, tl.load(x))


@gives(lambda x: 2 * x, "the time of its signals: ceil(log2 P) rounds for P programs", pes=[0, 1])
def tl_barrier(tl, x, y):
    half = slice(2 * tl.program_id(), 2 * tl.program_id() + 2)
    tl.store(y[half, :], tl.load(x[half, :]))
    tl.barrier()
    other = slice(2 - half.start, 4 - half.start)
    tl.store(y[other, :], tl.load(y[other, :]) * 2)
