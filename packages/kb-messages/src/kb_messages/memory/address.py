"""Physical addresses: one integer of 68 bits names a byte of any memory in the system.

    67      60 59      52 51  48 47      38 37                0
    |  sip   |   die    | kind |   unit   |      offset       |

`die` is the cube (or chiplet) within the SIP, and `kind` the memory space. `unit` numbers the memories of one kind on a
die (an HBM slice, the TCM of a PE). The upper 30 bits are the *owner* number of the memory.

Addresses of the first eight SIPs fit a signed column of 64 bits. The op log needs no such column, because it stores
owner and offset in two columns.

No memory space has kind 0, so no physical address is below 2^48. The numbers below 2^48 are the virtual addresses,
which the MMU of a PE translates.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from kb_messages.errors import AddressError

OFFSET_BITS: Final = 38
_KIND_BITS: Final = 4
_UNIT_BITS: Final = 10
_FIELDS: Final = (("sip", 8), ("die", 8), ("kind", _KIND_BITS), ("unit", _UNIT_BITS), ("offset", OFFSET_BITS))
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
ADDRESS_BITS: Final = sum(bits for _, bits in _FIELDS)
VIRTUAL_BITS: Final = OFFSET_BITS + _UNIT_BITS
VIRTUAL_END: Final = 1 << VIRTUAL_BITS
"""One past the last virtual address. Virtual addresses fill the unit and offset fields and leave the other fields 0."""


class MemorySpace(StrEnum):
    """Kinds of memory that an operand can lie in.

    Registers are a kind, so that the log can name registers that a block reads.
    """

    HBM = "hbm"
    SRAM = "sram"
    TCM = "tcm"
    REG = "reg"
    IMMEDIATE = "immediate"

    @property
    def code(self) -> int:
        """The number in the kind field of addresses and in op logs. No kind is 0, so address 0 is never valid."""
        return _CODES[self]


_CODES: Final = {space: index for index, space in enumerate(MemorySpace, start=1)}
SPACE_BY_CODE: Final[dict[int, MemorySpace]] = {code: space for space, code in _CODES.items()}


class PhysAddr(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a physical address."""

    sip: int = 0
    die: int = 0
    space: MemorySpace
    unit: int = 0
    offset: int = 0

    def encode(self) -> int:
        """The address as one integer. Raises AddressError for a field that does not fit its bits."""
        values = (self.sip, self.die, self.space.code, self.unit, self.offset)
        address = 0
        for (name, bits), value in zip(_FIELDS, values, strict=True):
            if not 0 <= value < 1 << bits:
                raise AddressError(f"address field {name}", str(value), f"0 to {(1 << bits) - 1}")
            address = address << bits | value
        return address

    @classmethod
    def decode(cls, address: int) -> PhysAddr:
        """The fields of *address*. Raises AddressError for more than 68 bits and for a kind that is no memory space."""
        rest, fields = address, {}
        for name, bits in reversed(_FIELDS):
            fields[name] = rest & (1 << bits) - 1
            rest >>= bits
        space = SPACE_BY_CODE.get(fields["kind"])
        if rest or space is None:
            raise AddressError("address", f"{address:#x}", f"{ADDRESS_BITS} bits whose kind field names a memory space")
        return cls(sip=fields["sip"], die=fields["die"], space=space, unit=fields["unit"], offset=fields["offset"])


def owner_of(sip: int, die: int, space: MemorySpace, unit: int) -> int:
    """The owner number of one memory: its address without the offset bits."""
    return PhysAddr(sip=sip, die=die, space=space, unit=unit).encode() >> OFFSET_BITS


def split_address(address: int) -> tuple[int, int]:
    """Returns (owner, offset) of *address*: the number of the memory, and the byte in the memory."""
    return address >> OFFSET_BITS, address & OFFSET_MASK


def join_address(owner: int, offset: int) -> int:
    """The address of byte *offset* of memory *owner*."""
    return owner << OFFSET_BITS | offset


def is_virtual(address: int) -> bool:
    """Whether *address* is virtual. No physical address is."""
    return 0 <= address < VIRTUAL_END


def space_code_of(owner: Any) -> Any:
    """The code of the memory space of an owner number, or of each owner number of a numpy array."""
    return owner >> _UNIT_BITS & (1 << _KIND_BITS) - 1
