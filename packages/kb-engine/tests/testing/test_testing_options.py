"""What the contract suite has to be told of a block: its neighbours, and parameters of its stages."""

import pytest
from engine_said_by import said_by
from engine_toys import Gemm, Tcm

from kb_engine.testing import Neighbour, check_component
from kb_messages import StageType, TransferParams


class Looking(Gemm):
    def connect(self):
        self.tcm = self.context.neighbour("pe_tcm", Tcm)


def test_neighbours_are_wired_and_a_missing_one_is_named():
    check_component(Looking, {}, neighbours=[Neighbour("pe_tcm", Tcm)])
    assert said_by("is_built_from_attributes", Looking) == (
        "Looking.connect(): got an error (sip0.cube0.pe0.block: got 0 wires to a pe_tcm that is a Tcm, needs one; "
        "add `block -> pe_tcm` to the wires of pe_template), needs an answer"
    )


class Math(Gemm):
    serves = (StageType.GEMM, StageType.MATH)


def test_a_stage_type_without_sample_parameters_asks_for_some():
    with pytest.raises(AssertionError) as caught:
        check_component(Math, {})
    assert str(caught.value) == (
        "Math.serves: got MATH, for which there are no sample parameters, needs some; "
        "pass params={StageType.MATH: [...]}"
    )
    check_component(Math, {}, params={StageType.MATH: [TransferParams(nbytes=1)]})
