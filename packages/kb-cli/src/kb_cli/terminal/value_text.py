"""A value of a configuration as a person would type it."""

from __future__ import annotations

import msgspec


def value_text(value: object) -> str:
    """*value*, a JSON value, as `-p` takes it: `none`, `true`, `1.5`, `64x64x64`. Lists and dicts are JSON."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
