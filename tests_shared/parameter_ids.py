"""Names for the parameters of tests, so that `pytest -k` can select a case by its values."""

from enum import Enum

from msgspec import Struct

MOST_CHARACTERS = 60


def id_of(value: object) -> str | None:
    """A short text of *value*, the same in every process; None leaves the name to pytest.

    A struct has the name of its class, and a tuple or list the texts of its items.
    """
    if isinstance(value, tuple | list):
        parts = [id_of(each) for each in value]
        return None if not parts or None in parts else " ".join(",".join(map(str, parts)).split())[:MOST_CHARACTERS]
    if isinstance(value, Enum):
        return str(value.value) if isinstance(value, str) else value.name.lower()
    if isinstance(value, Struct):
        return type(value).__name__
    return str(value) if isinstance(value, str | int | float | None) else None
