"""The contract suite: checks that every component must pass, the bundled components and yours.

`check_component(MyBlock, {"lanes": 8})` raises AssertionError with one sentence at the first check that fails;
`component_checks` lists the same checks, so that each check can be a test of its own.
"""

from kb_engine.testing.checks import Check, check_component, component_checks
from kb_engine.testing.subject import Neighbour

__all__ = ["Check", "Neighbour", "check_component", "component_checks"]
