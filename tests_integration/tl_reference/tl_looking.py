"""Inspection

Calls that show values and change nothing.
"""

from tl_given import NO_COMMAND, gives


@gives(lambda z: abs(z), NO_COMMAND)
def tl_print(tl, z, y):
    sizes = tl.abs(tl.load(z))
    tl.print("largest of each row", tl.max(sizes, axis=1))
    tl.store(y, sizes)


@gives(lambda z: abs(z), NO_COMMAND)
def tl_capture(tl, z, y):
    sizes = tl.abs(tl.load(z))
    tl.capture("sizes", sizes)  # kb.run(...).captures["sizes"][0].value
    tl.store(y, sizes)


@gives(lambda z: abs(z), NO_COMMAND)
def tl_device_assert(tl, z, y):
    sizes = tl.abs(tl.load(z))
    tl.device_assert(sizes >= 0, "a size is negative")  # pass 2 checks it
    tl.store(y, sizes)
