import msgspec
import pytest

from kb_messages.host import MmuMap, MmuMessage, MmuUnmap

MAP = MmuMap(virtual=0x1000, physical=1 << 42, nbytes=8192, pes=("sip0.cube0.pe0",))


@pytest.mark.parametrize("message", [MAP, MmuUnmap(virtual=0x1000, nbytes=4096, pes=())])
def test_a_message_survives_the_trip(message: MmuMessage) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=MmuMessage) == message


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        MAP.virtual = 0  # type: ignore[misc]
