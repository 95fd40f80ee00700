"""`--check`: how outputs are compared."""

from enum import StrEnum


class CheckMode(StrEnum):
    """How outputs are compared: each element with the reference, or a sample of products. `auto` chooses by size."""

    AUTO = "auto"
    FULL = "full"
    SAMPLE = "sample"
