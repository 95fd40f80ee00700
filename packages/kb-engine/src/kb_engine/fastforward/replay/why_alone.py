"""Why programs, or turns of their loops, are not repeated, in the words that users read."""

from __future__ import annotations

from typing import Final

from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal

OTHER_WAYS: Final = "goes another way in other programs, by a comparison with the number of its program"
_CHANGES: Final = {
    "looks at a computed value": "decide by `tl.where`, or look behind the loop",
    "looks at a value": "decide by `tl.where`, or look behind the loop",
    "reads memory": "load with `tl.load`, and decide by `tl.where`",
    "prints": "print behind the loop, or not at all",
    "captures": "leave the capture out",
    "frees a value": "leave `tl.free` out: a value that nobody has any more is freed",
    "stores known values": "store what the kernel computes or loads by commands",
    "waits for all commands": "wait for one command by its handle",
    "waits for a command of an earlier turn": "wait in the turn that issues the command",
    "uses virtual addresses": "map nothing, and pass the tensors themselves",
    OTHER_WAYS: "decide by arguments of the launch, and launch programs that differ apart from each other",
}
"""What an author could do, by what the program does."""


def alone(why: str, line: str = "") -> SkipRefusal:
    """The reason that a kernel does at *line* what no other program can repeat: *why*, as `Peers.leave` has it."""
    return SkipRefusal(f"the kernel {why}", _CHANGES.get(why, NO_REMEDY), line)
