import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_messages.errors import AddressError
from kb_messages.memory.address import (
    ADDRESS_BITS,
    OFFSET_BITS,
    SPACE_BY_CODE,
    MemorySpace,
    PhysAddr,
    is_virtual,
    owner_of,
)


def test_fields_lie_where_the_layout_says() -> None:
    # sip at bit 60, die at 52, kind at 48 (TCM is 3), unit at 38, offset at 0
    address = PhysAddr(sip=1, die=2, space=MemorySpace.TCM, unit=5, offset=0x80).encode()
    assert address == (1 << 60) + (2 << 52) + (3 << 48) + (5 << 38) + 0x80
    assert address == 0x1023_0140_0000_0080


def test_the_largest_address_has_68_bits() -> None:
    address = PhysAddr(sip=255, die=255, space=MemorySpace.IMMEDIATE, unit=1023, offset=2**38 - 1).encode()
    assert address.bit_length() == ADDRESS_BITS == 68


def test_space_codes_never_change_and_leave_0_out() -> None:
    assert [SPACE_BY_CODE[code].value for code in range(1, 6)] == ["hbm", "sram", "tcm", "reg", "immediate"]
    assert 0 not in SPACE_BY_CODE
    assert all(SPACE_BY_CODE[space.code] is space for space in MemorySpace)


@given(
    sip=st.integers(0, 255),
    die=st.integers(0, 255),
    space=st.sampled_from(MemorySpace),
    unit=st.integers(0, 1023),
    offset=st.integers(0, 2**38 - 1),
)
def test_decode_inverts_encode(sip: int, die: int, space: MemorySpace, unit: int, offset: int) -> None:
    fields = PhysAddr(sip=sip, die=die, space=space, unit=unit, offset=offset)
    assert PhysAddr.decode(fields.encode()) == fields
    assert fields.encode() >> OFFSET_BITS == owner_of(sip, die, space, unit)


@pytest.mark.parametrize(
    ("field", "value", "largest"),
    [("sip", 256, 255), ("die", -1, 255), ("unit", 1024, 1023), ("offset", 2**38, 2**38 - 1)],
)
def test_a_field_that_does_not_fit_is_refused(field: str, value: int, largest: int) -> None:
    fields = {"space": MemorySpace.HBM, field: value}
    message = f"address field {field}: got {value}, needs 0 to {largest}"
    with pytest.raises(AddressError, match=f"^{re.escape(message)}$"):
        PhysAddr(**fields).encode()  # type: ignore[arg-type]  # one of the int fields


@pytest.mark.parametrize("address", [0, 1 << 68, 6 << 48, 15 << 48, -1])
def test_a_number_that_is_no_address_is_refused(address: int) -> None:
    message = f"address: got {address:#x}, needs 68 bits whose kind field names a memory space"
    with pytest.raises(AddressError, match=f"^{re.escape(message)}$"):
        PhysAddr.decode(address)


@given(st.integers(-(1 << 49), 1 << 68))
def test_no_virtual_address_is_a_physical_one(address: int) -> None:
    if is_virtual(address):
        with pytest.raises(AddressError):
            PhysAddr.decode(address)
    else:
        assert not 0 <= address < 1 << 48


def test_the_lowest_physical_address_is_above_all_virtual_ones() -> None:
    lowest = PhysAddr(space=MemorySpace.HBM).encode()
    assert (lowest, is_virtual(lowest), is_virtual(lowest - 1)) == (1 << 48, False, True)
