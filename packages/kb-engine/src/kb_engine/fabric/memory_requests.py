"""MemoryRequests: the fabric's knowledge of the requests that are on their way to one memory."""

from __future__ import annotations


class MemoryRequests:
    """The requests to one memory. All paths to the memory share this object.

    `awaited` counts the requests whose arrival is an event. `promised_ps` is the arrival of the last request that was
    reserved before it arrived; no request may arrive earlier.
    """

    __slots__ = ("awaited", "promised_ps")

    def __init__(self) -> None:
        self.awaited = 0
        self.promised_ps = 0
