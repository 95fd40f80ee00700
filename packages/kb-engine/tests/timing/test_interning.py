from kb_engine.timing.interning import interned


def test_equal_values_are_one_object_and_types_stay_apart():
    big = interned(int("70000"))
    assert interned(int("70000")) is big
    assert [type(interned(each)) for each in (1, 1.0, True)] == [int, float, bool]
