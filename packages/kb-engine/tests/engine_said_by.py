"""What one check of the contract suite says of a block."""

import pytest

from kb_engine.testing import component_checks


def said_by(name, impl, attributes=None):
    """What the check *name* says of *impl*."""
    for check in component_checks(impl, attributes or {}):
        if str(check) == name:
            with pytest.raises(AssertionError) as caught:
                check()
            return str(caught.value)
    raise LookupError(name)
