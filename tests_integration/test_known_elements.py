"""Reads of the known elements of handles: a program that decides by them must not be repeated from a template.

Each place below stores or shows the elements, or calls `ProgramPort.leave` when it decides by them.
"""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "packages" / "kb-engine" / "src" / "kb_engine"
READS = {
    "program/values/handles.py": 9,  # reads of elements call leave, views and parts have the elements of the value
    "language/atomics.py": 2,  # programs with atomics are not repeated
    "language/tl.py": 9,  # prints and captures call leave
    "language/messages.py": 2,  # programs with messages are not repeated
    "language/layout_functions.py": 7,  # a gather calls leave, and a bitcast is a view
    "language/transfers.py": 1,  # stores of known elements call leave, unless a load brought the elements
    "language/access/piece_transfers.py": 3,  # the same
    "language/call_rules.py": 4,  # the op of the result may be known; no templates while wraps are searched
    "language/vector/recorded.py": 2,  # reads of elements call leave, views have the elements of the viewed value
    "language/vector/vector_programs.py": 3,  # views have the elements of the viewed value
}


def test_reads_of_known_elements_stand_in_the_table() -> None:
    found = dict.fromkeys(READS, 0)
    for room in ("program", "language", "fastforward/replay"):
        for path in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr == "known" and isinstance(node.ctx, ast.Load):
                    name = path.relative_to(SOURCE).as_posix()
                    found[name] = found.get(name, 0) + 1
    assert found == READS, "call ProgramPort.leave where a program decides by elements, and correct the table"
