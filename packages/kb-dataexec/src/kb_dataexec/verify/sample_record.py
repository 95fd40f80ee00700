"""ProductSample: the record of a check by sample."""

from __future__ import annotations

from msgspec import Struct


class ProductSample(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows and sums of a check by sample, and the probability that it misses an error.

    `rows` were compared element by element. Of each row and each block of `columns`, `weights` random sums were taken.
    An error of a row, within a block, that is `miss_factor` times the allowed error, goes unnoticed with a probability
    of at most `miss_probability`. Both errors are the root of the sum of squares over the block. For integers,
    `miss_factor` is 0: any error counts. If all rows were compared, `miss_probability` is 0.
    """

    rows: int
    columns: int
    weights: int
    miss_factor: float
    miss_probability: float

    def __str__(self) -> str:
        if not self.miss_probability:
            return f"by sample: all {self.rows} rows in full"
        size = f" {self.miss_factor:g} times the allowed one" if self.miss_factor else ""
        sums = f"{self.weights} random sums of each row and {self.columns} columns"
        missed = f"which miss an error{size} with probability {self.miss_probability:.1e}"
        return f"by sample: {self.rows} rows in full, and {sums}, {missed}"
