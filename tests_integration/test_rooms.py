"""Every package is made of rooms: a room imports only rooms below it, and another package only through a door.

A door is a package's or a room's `__init__`. A room that stands later in its list is above the rooms before it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"

ROOMS = {
    "kb_messages": ["memory", "log", "math", "plans"],
    "kb_topology": ["text", "chip", "memory", "routes", "diagram"],
    "kb_plans": ["tiles", "vectors"],
    "kb_dataexec": ["files", "arrays", "memory", "backends", "log", "analysis", "ops", "execute", "verify", "cli"],
    "kb_engine": [
        "timing", "memory", "block", "fabric", "observe", "sync", "program", "language", "launch", "engine",
        "collectives", "host", "probe", "testing", "fastforward",
    ],
    "kb_components": ["fabric", "memory", "cube", "host", "pe"],
    "kb_triton": ["language", "host", "checking", "jit", "runtime", "shims"],
    "kb_models": ["layout", "ops", "models", "networks"],
    "kb_cli": [
        "terminal", "benchmark", "run", "trace", "compare", "whatif", "face", "script", "sweep", "capsule", "report",
        "notebook", "golden", "web", "completion", "commands",
    ],
}  # fmt: skip

SUB_ROOMS = {
    "kb_cli.benchmark": ["code", "values"],
    "kb_cli.run": ["base", "observe", "records", "rules", "folders", "simulation", "saving"],
    "kb_cli.report": ["data", "elements", "pictures", "tables", "html"],
    "kb_cli.sweep": ["pools"],
    "kb_cli.web": ["lanes", "answers"],
    "kb_cli.commands": ["finished_runs"],
    "kb_engine.program": ["values", "author"],
    "kb_engine.language": ["vector", "access"],
}
"""The sub-rooms of a room, in their order. Files that stand in the room itself have no place in the order."""


def source_of(package: str) -> Path:
    return PACKAGES / package.replace("_", "-") / "src"


@cache
def files_of(package: str) -> dict[str, Path]:
    """The modules of *package* by name; a package's `__init__` has the package's name."""
    root = source_of(package)
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(root.rglob("*.py"))
    }


MODULES = frozenset(name for package in ROOMS for name in files_of(package))
DOORS = frozenset(name for package in ROOMS for name, path in files_of(package).items() if path.name == "__init__.py")


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(node: ast.AST, with_types: bool) -> Iterator[ast.AST]:
    """All nodes below *node*; without *with_types* not those of `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if with_types or not is_for_types(child):
            yield child
            yield from statements(child, with_types)


@cache
def names_of_door(door: str) -> frozenset[str]:
    """The names that *door* imports, and so offers."""
    tree = ast.parse(files_of(door.partition(".")[0])[door].read_text(encoding="utf-8"))
    return frozenset(alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)


def provider_of(module: str, name: str) -> str:
    """What `from module import name` takes the name from: the door *module*, or a file of that name behind it."""
    file = f"{module}.{name}"
    return file if file in MODULES and name not in names_of_door(module) else module


@cache
def imports_of(module: str, package: str, with_types: bool = True) -> frozenset[str]:
    """The modules of ours that *module* imports."""
    found = set()
    for node in statements(ast.parse(files_of(package)[module].read_text(encoding="utf-8")), with_types):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {provider_of(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found & MODULES) - {module}


def every_import() -> Iterator[tuple[str, str, str]]:
    """(package, module, what it imports), over all packages."""
    for package in ROOMS:
        for module in files_of(package):
            for imported in sorted(imports_of(module, package)):
                yield package, module, imported


def room_of(module: str) -> str:
    """The room of *module*, or "" for a file that stands in the package itself."""
    package, *rest = module.split(".")
    return rest[0] if rest and rest[0] in ROOMS[package] else ""


def test_every_folder_is_a_room_of_the_table() -> None:
    for package, rooms in ROOMS.items():
        folders = {path.parent.name for path in (source_of(package) / package).glob("*/__init__.py")}
        assert folders == set(rooms), package


def test_a_room_imports_only_rooms_below_it() -> None:
    wrong = []
    for package, module, imported in every_import():
        if imported.startswith(f"{package}.") and room_of(module) and room_of(imported):
            order = ROOMS[package].index
            if order(room_of(imported)) > order(room_of(module)):
                wrong.append(f"{module} -> {imported}")
    assert wrong == []


def sub_room_of(module: str, room: str) -> str:
    """The sub-room of *room* in which *module* lies; "" for a module outside of all sub-rooms of *room*."""
    name = module.removeprefix(f"{room}.").partition(".")[0]
    return name if module.startswith(f"{room}.{name}") and name in SUB_ROOMS[room] else ""


def test_every_folder_in_a_room_with_sub_rooms_is_in_the_table() -> None:
    for room, sub_rooms in SUB_ROOMS.items():
        folder = source_of(room.partition(".")[0]) / Path(*room.split("."))
        assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(sub_rooms), room


def test_a_sub_room_imports_only_sub_rooms_below_it() -> None:
    wrong = []
    for room, sub_rooms in SUB_ROOMS.items():
        for _, module, imported in every_import():
            own, other = sub_room_of(module, room), sub_room_of(imported, room)
            if own and other and sub_rooms.index(other) > sub_rooms.index(own):
                wrong.append(f"{module} -> {imported}")
    assert wrong == []


def test_another_package_is_entered_by_a_door() -> None:
    wrong = [
        f"{module} -> {imported}"
        for package, module, imported in every_import()
        if imported.partition(".")[0] != package and imported not in DOORS
    ]
    assert wrong == []


def circles(package: str) -> list[list[str]]:
    """Every circle of imports that a walk through the files of *package* comes upon, doors apart."""
    modules = [name for name in files_of(package) if name not in DOORS]
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
        elif module not in done:
            for imported in sorted(imports_of(module, package) & set(modules)):
                walk(imported, [*way, module])
            done.add(module)

    for module in modules:
        walk(module, [])
    return found


@pytest.mark.parametrize("package", ROOMS)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    assert [" -> ".join(circle) for circle in circles(package)] == []


def test_the_picture_has_the_rooms_in_their_order() -> None:
    page = (PACKAGES.parent / "docs" / "rooms.md").read_text(encoding="utf-8")
    picture = page.split("```mermaid\n")[1].split("```")[0]
    drawn = {
        package: re.findall(r"\[(\w+)\]", body)[::-1]
        for package, body in re.findall(r"subgraph (\w+)\n(.*?)\n  end\n", picture, re.DOTALL)
    }
    pictured = ("kb_cli", "kb_triton", "kb_models", "kb_engine", "kb_components", "kb_dataexec")
    assert drawn == {package: ROOMS[package] for package in pictured}


def test_the_search_finds_what_is_there() -> None:
    """A search that finds nothing forbids nothing."""
    assert sum(1 for _ in every_import()) >= 600
    assert imports_of("kb_engine", "kb_engine", with_types=False) != imports_of("kb_engine", "kb_engine")
    assert [one for one, other in pairwise(["kb_engine", "kb_engine.block"]) if one not in DOORS] == []
