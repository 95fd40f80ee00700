"""A lazy door says its names twice: to type checkers under `if TYPE_CHECKING:`, and to `lazy_door` in a table."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"


def lazy_doors() -> list[str]:
    """The modules that are lazy doors, like `kb_engine`."""
    found = []
    for path in sorted(PACKAGES.glob("*/src/**/__init__.py")):
        if "lazy_door(" in path.read_text(encoding="utf-8"):
            source = next(parent for parent in path.parents if parent.name == "src")
            found.append(".".join(path.parent.relative_to(source).parts))
    return found


def names_for_types(door: str) -> dict[str, str]:
    """The module of every name that *door* imports under `if TYPE_CHECKING:`."""
    file = importlib.import_module(door).__file__
    assert file is not None
    blocks = [node for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    assert [ast.unparse(block.test) for block in blocks] == ["TYPE_CHECKING", "not TYPE_CHECKING"]
    assert ast.unparse(blocks[1].body) == "__getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)"
    imports = [node for node in blocks[0].body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        assert all(alias.asname == alias.name for alias in node.names), ast.unparse(node)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_there_are_lazy_doors() -> None:
    assert {"kb_engine", "kb_dataexec"} <= set(lazy_doors())


@pytest.mark.parametrize("door", lazy_doors())
def test_the_table_has_the_names_that_type_checkers_see(door: str) -> None:
    module = importlib.import_module(door)
    table = {name for names in module._NAMES.values() for name in names}
    assert table == set(names_for_types(door))
    assert sum(map(len, module._NAMES.values())) == len(table)
    assert table <= set(dir(module))


def test_all_names_of_a_door_are_imported_by_a_star() -> None:
    names: dict[str, object] = {}
    exec("from kb_topology import *\nfrom kb_dataexec.verify import *", names)
    assert {"load_topology", "compare", "product_tolerance"} <= set(names)
    assert not {"lazy_door", "TYPE_CHECKING"} & set(names)


@pytest.mark.parametrize("door", lazy_doors())
def test_no_lazy_name_is_that_of_a_module_behind_the_door(door: str) -> None:
    """An import of the module would put the module in the place of the name."""
    module = importlib.import_module(door)
    behind = {each.name for each in pkgutil.iter_modules(module.__path__)}
    assert behind & {name for names in module._NAMES.values() for name in names} == set()


@pytest.mark.parametrize("door", lazy_doors())
def test_every_name_is_what_type_checkers_take_it_for(door: str) -> None:
    module = importlib.import_module(door)
    for name, home in names_for_types(door).items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name), name


@pytest.mark.parametrize("door", lazy_doors())
def test_a_name_that_is_not_there_is_refused(door: str) -> None:
    module = importlib.import_module(door)
    with pytest.raises(AttributeError, match=rf"^module '{door}' has no attribute 'nothing'$"):
        module.nothing  # noqa: B018
