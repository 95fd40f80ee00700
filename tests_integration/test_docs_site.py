"""The pages of the site: all of them are there and lead somewhere, and the reference has everything that there is.

Sphinx is not needed for this. `nox -s site` builds the site, strictly, and runs every command of its pages.
"""

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from kb_cli.benchmark import bundled
from kb_cli.main import kb
from kb_dataexec.cli.main import command_line
from kb_topology import Validation
from kb_topology.chip import spec

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "docs_site")
    site, places, sections = (import_module(f"site_{name}") for name in ("contents", "places", "sections"))
    specs, python, shown = (import_module(f"site_{name}") for name in ("specs", "python", "page_commands"))
    gallery = import_module("site_gallery")

CODE = re.compile(r"^(`{3,})\w*\n.*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
LISTED = re.compile(r"^```\{toctree\}\n:hidden:\n\n(.*?)\n```", re.MULTILINE | re.DOTALL)
COMMANDS = [(page, line) for page, lines in shown.shown_commands().items() for line in lines]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The text of every page by its place in the site."""
    found: dict[str, str] = site.contents(gallery.gallery_page()).pages
    return found


def test_every_link_leads_to_a_page_and_a_heading(pages: dict[str, str]) -> None:
    headings = {
        place: {site.anchor(each) for each in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)}
        for place, text in pages.items()
    }
    wrong = []
    for place, text in pages.items():
        for link in LINK.findall(CODE.sub("", text)):
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or name.endswith((".png", ".svg")):
                continue
            target = str((Path("/") / place).parent.joinpath(name).resolve())[1:] if name else place
            if target not in pages or (anchor and anchor not in headings[target]):
                wrong.append((place, link))
    assert wrong == []


def test_every_page_stands_in_one_section(pages: dict[str, str]) -> None:
    listed = Counter(
        str((Path("/") / place).parent.joinpath(f"{line.rpartition('<')[2].rstrip('>')}.md").resolve())[1:]
        for place, text in pages.items()
        for block in LISTED.findall(text)
        for line in block.splitlines()
    )
    alone = {place for place, text in pages.items() if "\norphan: true\n" in text}
    assert set(listed) == set(pages) - alone - {"index.md"}
    assert set(listed.values()) == {1}
    assert all(place.startswith("source/") for place in alone)


def test_every_page_of_the_repository_is_in_the_site(pages: dict[str, str]) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    files |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "packages").glob("*/*.md")}
    assert {places.pages()[name] for name in files} <= set(pages)
    assert set(places.pages().values()) <= set(pages)


def test_a_link_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs one that a page can show"):
        site.Links().rewrite("[a](nowhere.md)", ROOT / "docs" / "index.md", "index.md")


def parameters(command: click.Command | argparse.ArgumentParser) -> Iterator[str]:
    """The options of *command* and of its subcommands."""
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command)):
            yield from parameters(command.get_command(click.Context(command), each))
    elif isinstance(command, click.Command):
        yield from (name for each in command.params if isinstance(each, click.Option) for name in each.opts)
    else:
        for action in command._actions:
            yield from action.option_strings
            for inner in (action.choices or {}).values() if isinstance(action, argparse._SubParsersAction) else ():
                yield from parameters(inner)


@pytest.mark.parametrize("name", [*kb.list_commands(click.Context(kb)), "dataexec"])
def test_the_page_of_a_command_has_each_of_its_options(name: str, pages: dict[str, str]) -> None:
    is_kb = name != "dataexec"
    text = pages[f"reference/commands/kb-{name}.md"]
    command: Any = kb.get_command(click.Context(kb), name) if is_kb else command_line()
    options = set(parameters(command))
    assert options
    assert {each for each in options if not re.search(rf"^\| `[^`]*{re.escape(each)}\b", text, re.MULTILINE)} == set()
    assert f"](kb-{name}.md)" in pages["reference/commands/index.md"]


@pytest.mark.parametrize("name", specs.blocks())
def test_the_page_of_blocks_has_each_attribute_with_its_unit(name: str, pages: dict[str, str]) -> None:
    part = pages["reference/blocks.md"].partition(f"## {name}\n")[2].partition("\n## ")[0]
    for field in msgspec.structs.fields(specs.blocks()[name].spec_type):
        (row,) = re.findall(rf"^\| `{field.encode_name}` \|.*$", part, re.MULTILINE)
        _, _, value, unit, default, *_ = (cell.strip() for cell in re.split(r"(?<!\\)\|", row))
        assert value
        assert (default == "needed") == field.required
        if re.search(r"_(ns|gbs|ghz|mhz|kib|nbytes|cycles)$", field.encode_name):
            assert unit
    assert "Source" in part


@pytest.mark.parametrize("part", specs.FORMAT, ids=lambda part: part.__name__)
def test_the_page_of_the_format_has_each_field(part: Any, pages: dict[str, str]) -> None:
    text = pages["reference/topology-file.md"].partition(f"## {part.__name__}\n")[2].partition("\n## ")[0]
    assert {f"| `{name}` |" for name in part.__struct_encode_fields__ if f"| `{name}` |" not in text} == set()


@pytest.mark.parametrize("module", python.MODULES)
def test_the_page_of_a_module_says_something_of_each_public_name(module: str, pages: dict[str, str]) -> None:
    parts = dict(
        re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", pages[f"reference/python/{module}.md"], re.MULTILINE | re.DOTALL)
    )
    names = python.public_names(module)
    assert sorted(parts) == sorted(names)
    assert [name for name in names if not parts[name].strip()] == []


def test_every_part_of_a_topology_file_is_on_the_page_of_the_format() -> None:
    defined = {each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)}
    own = {each for each in defined if each.__module__ == spec.__name__}
    assert own | {Validation} == set(specs.FORMAT)
    (page,) = [text for name, text in specs.spec_pages().items() if name == "reference/topology-file.md"]
    assert "| `equal` | a list of values for each name |" in page
    assert "| `ranges` | 2 numbers for each name |" in page
    assert "| `fidelity` | a list of [Validation](#validation) |" in page


def test_the_list_of_design_pages_has_all_of_them(pages: dict[str, str]) -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", pages["design/index.md"])
    assert sorted(listed) == sorted(
        path.name for path in (ROOT / "docs" / "design").glob("*.md") if path.name != "README.md"
    )


def test_the_pages_of_what_is_bundled_have_each_file_and_parameter(pages: dict[str, str]) -> None:
    for name in bundled.names("topologies"):
        assert f"[`{name}`](" in pages["reference/chips.md"]
        assert f"source/topologies/{name}.yaml.md" in pages
    for name in bundled.names("benchmarks"):
        assert f"\n## {name}\n" in pages["reference/benchmarks.md"]
    assert "| `loop_order` | one of mnk, nmk," in pages["reference/benchmarks.md"]


def test_the_log_format_is_a_page_and_the_package_leads_to_it(pages: dict[str, str]) -> None:
    assert "| `op_id` |" in pages["reference/log-format.md"] or "`op_id`" in pages["reference/log-format.md"]
    assert "(../reference/log-format.md#the-op-log-on-disk)" in pages["packages/kb-dataexec.md"]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda text: text[-60:])
def test_a_command_of_a_page_exists_with_its_options(page: str, line: str) -> None:
    """Its values are those of the page; `nox -s site` runs it."""
    words = shlex.split(line.rpartition("&& ")[2])
    if Path(words[0]).name == "kb":
        context = click.Context(kb, info_name="kb", **kb.context_settings)
        command: Any = kb.get_command(context, words[1])
        rest = words[2:]
        while isinstance(command, click.Group):
            command, rest = command.get_command(context, rest[0]), rest[1:]
        command.make_context(words[1], list(rest), parent=context)
    elif words[0] == "kb-dataexec":
        command_line().parse_args(words[1:])
    else:
        assert Path(words[0]).name in {"sed", "nox", "uv", "pytest", "python"}


def test_pages_have_commands_to_look_at() -> None:
    assert len(COMMANDS) > 60


@pytest.mark.parametrize("line", [c for each in gallery.CHAPTERS.values() for one in each for c in one.commands])
def test_a_command_of_the_gallery_exists_with_its_options(line: str) -> None:
    test_a_command_of_a_page_exists_with_its_options("gallery", line)
