"""The plan of a product on one PE is that of an equal product on another PE, moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_components.pe.plan_forms import PlanForms
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
    "n_tiles", "starts_differ",
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
    "wrong", [{"address": 8.0}, {"address": -1}, {"rows": 40.0}, {"stride": True}, {"dtype": "f16"}]
)
def test_a_value_of_a_wrong_type_is_refused_although_an_equal_form_is_known(wrong):
    forms, command = PlanForms(), product((1, 1, 1), (0, 4096, 8192))
    forms.find(command, "pe0")
    with pytest.raises(PlanError):
        forms.find(replace(command, a=replace(command.a, **wrong)), "pe1")


@pytest.mark.parametrize("wrong", [{"loop_order": "mnk"}, {"a": "tensor"}, {"tile": (16, 16, 16)}])
def test_a_part_of_a_wrong_type_is_refused_although_an_equal_form_is_known(wrong):
    forms, command = PlanForms(), product((1, 1, 1), (0, 4096, 8192))
    forms.find(command, "pe0")
    with pytest.raises(PlanError):
        forms.find(replace(command, **wrong), "pe1")


def test_forms_are_forgotten_when_they_are_many():
    forms = PlanForms()
    for columns in range(1, 400):
        forms.find(
            replace(product((1, 1, 1), (0, 4096, 8192)), b=at(1, 0, 24, columns), out=at(1, 0, 40, columns)), "pe0"
        )
    assert len(forms) < 300
