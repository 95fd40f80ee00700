"""The contract suite: what every component must hold to, run by this repository on its own and by you on yours.

`check_component(MyBlock, {"lanes": 8})` raises AssertionError with one sentence at the first check that fails;
`component_checks` gives the same checks one by one, to be parametrised over.
"""

from kb_engine.testing.checks import Check, check_component, component_checks
from kb_engine.testing.subject import Neighbour

__all__ = ["Check", "Neighbour", "check_component", "component_checks"]
