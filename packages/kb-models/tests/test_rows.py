"""One row of each sequence, and sums of such rows."""

import numpy as np
import pytest
from running import check_ops, two_sips

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder


@pytest.mark.parametrize(("batch", "every", "dtype"), [(1, 1, "f16"), (1, 5, "f32"), (9, 3, "bf16"), (11, 1, "f16")])
@pytest.mark.parametrize("is_first", [True, False])
def test_rows_are_those_of_numpy(batch: int, every: int, dtype: str, is_first: bool) -> None:
    def build(m: Builder) -> None:
        x, y = (m.input(name, (batch * every, 40), ("batch", "")) for name in "xy")
        m.rows("of_one", [x], every, is_first=is_first)
        m.rows("of_two", [x, y], every, is_first=is_first)

    ran = check_ops("one_cube", "none", build, dtype)
    values = {value.name: value for op in ran.workload._made for value in (*op.reads, *op.writes)}
    x, found = ran.read(values["x"]), ran.read(values["of_one"])
    np.testing.assert_array_equal(found, x.reshape(batch, every, 40)[:, 0 if is_first else -1])


def test_rows_of_tokens_that_are_split_come_from_the_cube_that_has_them() -> None:
    """3 sequences of 5 tokens: rows 4, 9 and 14 of 15, which lie in 4 cubes of 3, 4, 4 and 4 rows."""

    def build(m: Builder) -> None:
        m.rows("last", [m.input("x", (15, 40), ("tokens", ""))], 5)

    ran = check_ops(two_sips(), "tokens=sip*cube", build)
    x, found = (ran.read(value) for value in (ran.workload._made[0].reads[0], ran.workload._made[0].writes[0]))
    np.testing.assert_array_equal(found, x[[4, 9, 14]])


def test_terms_of_other_layouts_are_refused() -> None:
    def build(m: Builder) -> None:
        m.rows("y", [m.input("a", (4, 8), ("batch", "")), m.input("b", (2, 8), ("batch", ""))], 2)

    with pytest.raises(BenchmarkError, match="op y: got b and a on other axes, needs terms of one layout"):
        check_ops("one_cube", "none", build)
