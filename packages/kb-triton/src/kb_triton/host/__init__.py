"""The host's side of a launch: the chip that runs it, and the bytes of host arrays."""

from kb_triton.host.device import Device, current, use

__all__ = ["Device", "current", "use"]
