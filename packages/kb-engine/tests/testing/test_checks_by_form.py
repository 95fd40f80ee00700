"""A block that is asked about plans by their form refuses the same plans on every PE."""

import pytest
from engine_said_by import said_by
from engine_toys import Gemm

from kb_engine.testing import component_checks
from kb_messages import OFFSET_BITS, DType, Place, PlanError

CHECK = "checks_plans_by_their_form"


def refused():
    return PlanError("gemm", "this plan", "another one")


class ByForm(Gemm):
    """Takes no 64-bit integers, and nothing from memory 2."""

    checks_by_form = True

    def check_plan(self, plan):
        self.check_addresses(plan)
        if plan.stages[0].operands[0].dtype is DType.I64:
            raise refused()

    def check_addresses(self, plan):
        operands = [each for stage in plan.stages for each in stage.operands]
        if any(each.place is Place.MEMORY and each.base >> OFFSET_BITS == 2 for each in operands):
            raise refused()


class ByAddress(Gemm):
    checks_by_form = True

    def check_plan(self, plan):
        if plan.addresses[0] % 4096:
            raise refused()


class ByName(Gemm):
    checks_by_form = True

    def check_plan(self, plan):
        if self.node_id.startswith("sip1"):
            raise refused()


class ByNumberOfPlans(Gemm):
    checks_by_form = True

    def check_plan(self, plan):
        self.servers["asked"] = self.servers.get("asked", 0) + 1
        if self.servers["asked"] == 4:
            raise refused()


class ForgetsAddresses(ByForm):
    checks_by_form = True

    def check_plan(self, plan):
        pass


class SaysNothing(ByAddress):
    pass


@pytest.mark.parametrize("impl", [ByAddress, ByName, ByNumberOfPlans])
def test_an_answer_that_does_not_follow_from_the_form_is_found(impl):
    assert f"{impl.__name__}.check_plan: got a plan of f16 and 'add' refused at one place" in said_by(CHECK, impl)


def test_addresses_that_the_whole_check_leaves_out_are_found():
    assert "got a plan taken that `check_addresses` refuses, needs it refused" in said_by(CHECK, ForgetsAddresses)


def test_a_block_may_refuse_addresses_apart():
    next(each for each in component_checks(ByForm, {}) if str(each) == CHECK)()


def test_a_subclass_that_says_nothing_is_asked_every_time():
    assert CHECK not in map(str, component_checks(SaysNothing, {}))
