from kb_messages.math.functions import MATH_FUNCTIONS


def test_functions_are_told_apart_by_what_they_take_and_give() -> None:
    assert MATH_FUNCTIONS["exp"].float_only
    assert (MATH_FUNCTIONS["add"].arity, MATH_FUNCTIONS["where"].arity) == (2, 3)
    assert [name for name, each in MATH_FUNCTIONS.items() if each.finds] == [
        "argmax", "argmin", "argmax_number", "argmin_number",
    ]  # fmt: skip
    assert [name for name, each in MATH_FUNCTIONS.items() if each.is_test] == [
        "isnan", "isinf", "isfinite", "signbit", "not", "eq", "ne", "lt", "le", "gt", "ge", "and", "or",
    ]  # fmt: skip
