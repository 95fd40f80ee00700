"""Who reads the known elements of handles: a program that steers by them must not be repeated from a template.

Each place below stores or shows them, or tells `ProgramPort.leave` when it decides by them.
"""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "packages" / "kb-engine" / "src" / "kb_engine"
READS = {
    "program/handles.py": 7,  # looks leave, views have the elements of what they view
    "language/atomics.py": 2,  # programs with atomics are not repeated
    "language/layout_functions.py": 7,  # a gather leaves, and a bitcast is a view
    "language/looking.py": 7,  # prints and captures leave
    "language/math_results.py": 2,  # the op of the result says whether it may be known
    "language/piece_transfers.py": 3,  # stores of known elements leave, unless a load brought these
    "language/recorded.py": 2,  # looks leave, views have the elements of what they view
    "language/transfers.py": 1,  # stores of known elements leave, unless a load brought these
    "language/vector_programs.py": 3,  # views have the elements of what they view
    "language/wraps.py": 2,  # a run that looks for integers that wrapped has no templates
}


def test_reads_of_known_elements_stand_in_the_table() -> None:
    found = dict.fromkeys(READS, 0)
    for room in ("program", "language", "template"):
        for path in sorted((SOURCE / room).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr == "known" and isinstance(node.ctx, ast.Load):
                    name = path.relative_to(SOURCE).as_posix()
                    found[name] = found.get(name, 0) + 1
    assert found == READS, "tell ProgramPort.leave where a program decides by elements, and correct the table"
