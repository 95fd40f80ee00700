"""The README's example runs and prints what it says."""

import importlib
import re
from pathlib import Path

import numpy as np

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    namespace = {"__name__": "readme"}
    _, example, test = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), namespace)
    assert capsys.readouterr().out == "24000\n"
    exec(compile(test, "README.md", "exec"), namespace)
    (mark,) = namespace["test_dot_unit"].pytestmark
    assert len(mark.args[1]) >= 10
    for check in mark.args[1]:
        namespace["test_dot_unit"](check)


def test_the_tensors_it_shows_lie_where_it_says(toy_host):
    changes = (
        ("pe_layout: {count: 1}", "pe_layout: {count: 4}"),
        ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 4"),
    )
    namespace = {"host": toy_host(*changes), "data": np.ones((64, 64), np.float16)}
    exec(
        compile(re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0], "README.md", "exec"),
        namespace,
    )
    units = {name: [matrix.address >> 38 & 1023 for _, matrix in namespace[name].every_block()] for name in "abcd"}
    assert units == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3], "c": [0, 1, 2, 3], "d": [0, 3]}
    assert namespace["b"].n_copies == 4


def test_the_modules_it_lists_exist():
    table = README.partition("## Rooms")[2].partition("\n## ")[0]
    names = [
        name for first in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", first)
    ]
    assert len(names) >= 10
    for name in names:
        importlib.import_module(f"kb_engine.{name}")


def test_the_methods_it_lists_exist():
    from kb_engine.block.component import ComponentBase

    table = README.partition("Override more")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)\(", table, re.MULTILINE)
    assert len(names) == 10
    assert all(hasattr(ComponentBase, name) for name in names)


def test_the_observer_it_shows_counts_tiles(toy_host):
    from kb_engine.observe.observer import HOOKS

    section = README.partition("## Watching a run")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(on_\w+)\(", section)) == set(HOOKS)
    namespace = {"__name__": "readme"}
    exec(
        compile(re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0], "README.md", "exec"), namespace
    )
    observer = namespace["BusiestLines"]()

    def kernel(tl, a):
        tl.wait(tl.composite("gemm", a, a, out=a, tile=(16, 16, 16)))

    host = toy_host(observers=[observer])
    host.launch(kernel, host.tensor("a", np.zeros((32, 32), np.float16), "f16"))
    assert observer.tiles == {f"test_readme.py:{kernel.__code__.co_firstlineno + 1}": 8}
