"""What the checks of the contract suite say of a block."""

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


def names_of(impl, attributes=None, **options):
    """The checks that *impl* fails, with what they say."""
    found = {}
    for check in component_checks(impl, attributes or {}, **options):
        try:
            check()
        except AssertionError as error:
            found[str(check)] = str(error)
    return found
