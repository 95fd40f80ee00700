"""The plan of a product on one PE is that of an equal product on another PE, moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_components.pe.scheduling.plan_forms import PlanForms
from kb_messages import (
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    LoopOrder,
    Matrix,
    PlanError,
    TileShape,
    join_address,
)
from kb_plans import generate_gemm_plan

TCM = 9


def at(owner, offset, rows, cols):
    return Matrix.packed(rows, cols, DType.F16, join_address(owner, offset))


def product(owners, offsets, **options):
    """Three by two by two tiles, of which some are ragged, with A and B of the types of the result."""
    (a, b, c), (one, two, three) = owners, offsets
    matrices = at(a, one, 40, 24), at(b, two, 24, 32), at(c, three, 40, 32)
    return GemmCommand(a=matrices[0], b=matrices[1], out=matrices[2], tile=TileShape(16, 16, 16), **options)


def same_place(owners, offsets):
    """The result overwrites A, as products of square matrices may."""
    command = product(owners, offsets)
    return replace(command, b=at(owners[1], offsets[1], 24, 24), out=command.a)


def added(owners, offsets):
    sums = Matrix.packed(40, 32, DType.F32, join_address(TCM, offsets[2]))
    return replace(product(owners, offsets), acc=sums, out=replace(sums, address=offsets[0]), out_pinned=True)


KINDS = (
    product,
    same_place,
    added,
    lambda owners, offsets: product(owners, offsets, loop_order=LoopOrder.WEIGHT_STATIONARY),
    lambda owners, offsets: product(owners, offsets, b_stream=True),
    lambda owners, offsets: product((TCM, *owners[1:]), offsets, a_pinned=True),
    lambda owners, offsets: product(
        owners, offsets, epilogue=(EpilogueOp(op="relu", scope=EpilogueScope.OUTPUT_TILE),)
    ),
)
OWNERS = st.tuples(*[st.integers(1, 4)] * 3)
OFFSETS = st.permutations([4096 * number for number in range(8)]).map(lambda each: each[:3])
KNOWN = (
    "address_numbers", "addresses", "has_fetches", "has_panels", "has_transfers", "held", "lifetimes", "n_stages",
    "n_tiles", "starts_differ", "transfers",
)  # fmt: skip


@given(st.sampled_from(KINDS), OWNERS, OWNERS, OFFSETS, OFFSETS)
def test_plans_of_other_pes_are_those_that_are_generated_there(kind, owners, others, offsets, other_offsets):
    forms = PlanForms()
    for pe, command in (("pe0", kind(owners, offsets)), ("sip1.cube2.pe3", kind(others, other_offsets))):
        plan, expected = forms.find(command, pe)[0], generate_gemm_plan(command, pe)
        assert plan == expected
        assert [getattr(plan, name) for name in KNOWN] == [getattr(expected, name) for name in KNOWN]
        assert list(plan.tiles) == list(plan.tiles_at(None)) == list(expected.tiles)
        elsewhere = [address + 4096 for address in plan.addresses]
        assert list(plan.tiles_at(elsewhere)) == list(expected.at(elsewhere).tiles)
    assert len(forms) == (not command.epilogue)


@pytest.mark.parametrize(
    "wrong", [{"address": 8.0}, {"address": -1}, {"rows": 40.0}, {"stride": True}, {"dtype": "f16"}, {"virtual": 0.5}]
)
def test_a_value_of_a_wrong_type_is_refused_although_an_equal_form_is_known(wrong):
    forms, command = PlanForms(), product((1, 1, 1), (0, 4096, 8192))
    forms.find(command, "pe0")
    with pytest.raises(PlanError):
        forms.find(replace(command, a=replace(command.a, **wrong)), "pe1")


@pytest.mark.parametrize("wrong", [
    {"loop_order": "mnk"}, {"a": "tensor"}, {"acc": "tensor"}, {"tile": (16, 16, 16)},
    {"tile": TileShape(16, 16.0, 16)}, {"epilogue": []}, {"a_pinned": 0}, {"b_stream": 0},
    {"acc_held": 0}, {"out_held": 0.0},
])  # fmt: skip
def test_a_part_of_a_wrong_type_is_refused_although_an_equal_form_is_known(wrong):
    forms, command = PlanForms(), product((1, 1, 1), (0, 4096, 8192))
    forms.find(command, "pe0")
    with pytest.raises(PlanError):
        forms.find(replace(command, **wrong), "pe1")


def test_commands_that_differ_in_more_than_addresses_and_owners_have_forms_of_their_own():
    matrix = {"rows", "cols", "stride", "dtype"}
    forms, command = PlanForms(), product((1, 1, 1), (0, 4096, 8192))
    changes = {
        "a": replace(command.a, stride=64),
        "b": replace(command.b, stride=128),
        "out": replace(command.out, stride=128),
        "tile": TileShape(16, 16, 8),
        "a_pinned": True,
        "b_pinned": True,
        "out_pinned": True,
        "b_stream": True,
        "loop_order": LoopOrder.NMK,
        "acc": Matrix.packed(40, 32, DType.F32, join_address(TCM, 0)),
    }
    left = {"transpose_a", "transpose_b", "acc_held", "out_held", "epilogue"}
    assert {*changes, *left} == {*GemmCommand.__struct_fields__}, "what a plan has of a new field is part of the key"
    assert matrix == {*Matrix.__struct_fields__} - {"address", "virtual"}
    square_product = same_place((1, 1, 1), (0, 4096, 8192))
    commands = [command, square_product, replace(square_product, transpose_b=True)]
    commands.append(replace(square_product, out=replace(square_product.out, address=join_address(1, 1 << 16))))
    commands += [replace(command, **{name: value}) for name, value in changes.items()]
    for number, each in enumerate(commands, 1):
        assert forms.find(each, "pe0")[0] == generate_gemm_plan(each, "pe0")
        assert len(forms) == number


def test_forms_are_forgotten_when_they_are_many():
    forms = PlanForms()
    for columns in range(1, 400):
        forms.find(
            replace(product((1, 1, 1), (0, 4096, 8192)), b=at(1, 0, 24, columns), out=at(1, 0, 40, columns)), "pe0"
        )
    assert len(forms) < 300
