"""Bytes of somebody else become text in few places: a reader of its own would fail with a traceback on bad UTF-8."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
SOURCES = sorted(PACKAGES.glob("*/src/**/*.py"))

READERS = {
    "kb_messages/regular.py": "opens files of somebody else",
    "kb_messages/text.py": "decodes bytes of somebody else",
    "kb_messages/plans/plan_json.py": "decodes JSON of plans, after decode_text",
    "kb_dataexec/files/json_text.py": "decodes JSON of somebody else",
    "kb_dataexec/files/arrays.py": "decodes arrays, after open_regular",
    "kb_topology/text/yaml_reader.py": "parses YAML that read_text decoded, and refuses what is not printable",
    "kb_topology/text/changes.py": "parses YAML again that yaml_reader has read, and single values of --set",
}
EXCEPTIONS = {
    ("kb_cli/benchmark/catalogue.py", "read_text"): "the bundled benchmarks, which come with kb",
    ("kb_models/find.py", "read_text"): "the bundled configurations, which come with kb-models",
    ("kb_models/find.py", "loads"): "the bundled configurations, which come with kb-models",
    ("kb_cli/benchmark/bundled.py", "read_bytes"): "the bundled benchmarks, which come with kb",
    ("kb_cli/web/server.py", "read_bytes"): "the files of the page, which come with kb",
    ("kb_cli/report/elements/stage_colours.py", "read_text"): "the colours of stages, which come with kb",
    ("kb_cli/report/elements/page_elements.py", "read_text"): "the style of plots, which comes with kb",
    ("kb_cli/sweep/point_store.py", "read_bytes"): "sources that run, which are hashed and not decoded",
    ("kb_cli/capsule/replay.py", "read_bytes"): "a file of an installed package, which is hashed and not decoded",
    ("kb_cli/benchmark/kernel_source.py", "read_bytes"): "the file of a kernel, which Python has imported",
    ("kb_cli/benchmark/code/machine_memory.py", "read_text"): "files of /proc, which the kernel of the machine writes",
    ("kb_dataexec/files/free_memory.py", "read_text"): "files of /proc and /sys, which the machine itself writes",
    ("kb_cli/run/base/folder_owner.py", "read_text"): "a file of /proc, with errors=replace",
    ("kb_cli/sweep/sweep_file.py", "loads"): "a text of at most 40 characters that matched a number of JSON",
    ("kb_cli/run/records/run_json.py", "loads"): "the JSON that kb has just encoded",
    ("kb_cli/run/saving/in_memory.py", "decode"): "the JSON that kb has just encoded",
    ("kb_cli/report/data/run_source.py", "decode"): "with errors=backslashreplace",
    ("kb_cli/whatif/ran_setup.py", "decode"): "with errors=replace",
    ("kb_cli/compare/side.py", "decode"): "with errors=replace",
    ("kb_dataexec/log/writer.py", "open"): "the immediates that the writer itself has written",
    ("kb_triton/checking/global_names.py", "read_bytes"): "the file of a kernel, which Python has imported",
    ("kb_triton/script.py", "decode"): "with errors=replace",
}
"""Calls outside the readers that cannot fail on bytes of a user, with the reason."""

PARSERS = {"json": {"load", "loads", "decode", "JSONDecoder", "Decoder"}, "yaml": {"parse", "load", "safe_load"}}
OF_FILES = {"read_text", "read_bytes"}
ENCODERS = {"encode", "format", "b32encode", "b64encode"}


def readings(path: Path) -> Iterator[str]:
    """Yields the name of each call in *path* that opens a file for reading text, or that decodes bytes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        parses = name in PARSERS.get(owner.rpartition(".")[2], ())
        decodes = name == "decode" and decodes_bytes(node)
        reads = (name in OF_FILES and owner) or (name == "open" and opens_text(node, owner))
        if parses or decodes or reads:
            yield name


def decodes_bytes(node: ast.Call) -> bool:
    """Whether *node* is `x.decode()` or `x.decode("utf-8")` of bytes that were not encoded in the same expression."""
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(receiver, ast.Call):
        made_by = receiver.func.attr if isinstance(receiver.func, ast.Attribute) else getattr(receiver.func, "id", "")
        if made_by in ENCODERS:
            return False
    texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return not node.args or bool(texts)


def opens_text(node: ast.Call, owner: str) -> bool:
    """Whether *node* opens a file to read it: a call of `open` without a mode that writes."""
    modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    is_file = not owner or owner.endswith(("path", "file")) or "/" in owner
    return is_file and not any(set(mode) & set("wxa") for mode in modes)


def test_bytes_of_users_are_decoded_by_the_readers_alone() -> None:
    found = {("/".join(path.relative_to(PACKAGES).parts[2:]), name) for path in SOURCES for name in readings(path)}
    assert len(found) >= 15, "a search that finds nothing forbids nothing"
    others = {each for each in found if each[0] not in READERS}
    assert others - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - others == set(), "an exception that nothing needs"


def test_the_search_knows_a_reading(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        "import json, msgspec, yaml\nopen(path)\npath.open()\npath.read_text()\ndata.decode()\ndata.decode('utf-8')\n"
        "json.loads(text)\nmsgspec.json.decode(data)\nmsgspec.json.Decoder(int)\nyaml.load(text)\n"
    )
    assert len(list(readings(file))) == 9
    file.write_text("open(path, 'wb')\nx.encode().decode()\nregion.decode(address)\nwebbrowser.open(address)\n")
    assert not list(readings(file))
