"""A block needs two doors of the engine's side: kb_engine.block and kb_messages. The bundled blocks show it."""

import ast
from pathlib import Path

import kb_components

OURS = ("kb_components", "kb_engine.block", "kb_messages", "kb_plans")


def test_the_bundled_blocks_import_what_any_author_may():
    imported = [
        (path.name, node.module)
        for path in Path(kb_components.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kb_")
    ]
    assert len(imported) >= 40
    allowed = [name for _, name in imported if name in OURS or name.startswith("kb_components.")]
    assert len(allowed) == len(imported), {each for each in imported if each[1] not in allowed}
