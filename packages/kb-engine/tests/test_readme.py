"""The README's example runs and prints what it says."""

import importlib
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    namespace = {"__name__": "readme"}
    example, test = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), namespace)
    assert capsys.readouterr().out == "24000\n"
    exec(compile(test, "README.md", "exec"), namespace)
    (mark,) = namespace["test_dot_unit"].pytestmark
    assert len(mark.args[1]) >= 10
    for check in mark.args[1]:
        namespace["test_dot_unit"](check)


def test_the_modules_it_lists_exist():
    table = README.partition("## Rooms")[2].partition("\n## ")[0]
    names = [
        name for first in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", first)
    ]
    assert len(names) >= 10
    for name in names:
        importlib.import_module(f"kb_engine.{name}")


def test_the_methods_it_lists_exist():
    from kb_engine.component import ComponentBase

    table = README.partition("Override more")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)\(", table, re.MULTILINE)
    assert len(names) == 6
    assert all(hasattr(ComponentBase, name) for name in names)
