import subprocess
import sys
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field

from kb_messages import TopologyError
from kb_topology import YamlSource, convert_checked
from kb_topology.text.yaml_reader import read_yaml


class Order(Enum):
    ROW = "row"
    COLUMN = "column"


class Bank(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: Annotated[int, Meta(ge=1)]
    clock_ghz: Annotated[float, Meta(gt=0)] = 1.0
    order: Order = Order.ROW
    mode: Literal["fast", "slow"] | None = None
    name: Annotated[str, Meta(min_length=2)] = "bank"
    on: bool = True
    start: int = field(name="from", default=0)


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    banks: dict[str, Bank] = {}
    groups: list[dict[str, list[Bank]]] | None = None
    pair: tuple[int, str] = (0, "")


def convert(text: str) -> Spec:
    return convert_checked(read_yaml(text, "f.yaml"), Spec, YamlSource("f.yaml", text))


def test_what_is_right_is_converted():
    assert convert("banks: {a: {rows: 1, clock_ghz: 2, order: column, mode: slow, from: 3}}").banks == {
        "a": Bank(rows=1, clock_ghz=2.0, order=Order.COLUMN, mode="slow", start=3)
    }


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        ("rows: 0", "3:7: $.banks.b.rows: got 0, needs >= 1"),
        ("rows: many", "3:7: $.banks.b.rows: got 'many', needs an int"),
        ("rows: 1.0", "3:7: $.banks.b.rows: got 1.0, needs an int"),
        ("rows: true", "3:7: $.banks.b.rows: got true, needs an int"),
        ("rows: null", "3:7: $.banks.b.rows: got null, needs an int"),
        ("rows: 1, clock_ghz: 0", "3:16: $.banks.b.clock_ghz: got 0, needs > 0"),
        ("rows: 1, on: yes", "3:16: $.banks.b.on: got 'yes', needs true or false"),
        ("rows: 1, name: x", "3:16: $.banks.b.name: got 'x', needs a string of length >= 2"),
        ("rows: 1, name: [x]", "3:16: $.banks.b.name: got a list of 1, needs a string"),
        ("rows: 1, from: x", "3:16: $.banks.b.from: got 'x', needs an int"),
        (
            "rows: 1, order: colum",
            "3:16: $.banks.b.order: got 'colum', needs one of row, column; did you mean 'column'?",
        ),
        ("rows: 1, mode: q", "3:16: $.banks.b.mode: got 'q', needs one of fast, slow"),
        (
            "row: 1",
            (
                "3:7: $.banks.b.row: got an unknown key, needs one of rows, clock_ghz, order, mode, name, on, from; "
                "did you mean 'rows'?"
            ),
        ),
        ("on: true", "3:3: $.banks.b: got no 'rows', needs that key; add `rows: ...`"),
    ],
)
def test_the_sentence_names_the_place_and_the_need(bank, message):
    with pytest.raises(TopologyError) as caught:
        convert(f"banks:\n  a: {{rows: 1}}\n  b: {{{bank}}}\n")
    assert str(caught.value) == f"f.yaml:{message}"


def test_the_place_is_found_through_lists_unions_and_mappings():
    with pytest.raises(TopologyError) as caught:
        convert("groups:\n  - x: [{rows: 1}]\n  - y: [{rows: 1}]\n    z: [{rows: 1}, {rows: -1}]\n")
    assert str(caught.value) == "f.yaml:4:21: $.groups[1].z[1].rows: got -1, needs >= 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pair: [1, 2]", "f.yaml:1:11: $.pair[1]: got 2, needs a string"),
        ("pair: [1]", "f.yaml:1:1: $.pair: got a list of 1, needs a list of length 2"),
        ("groups: 3", "f.yaml:1:1: $.groups: got 3, needs a list or null"),
        ("zzz: 3", "f.yaml:1:1: $.zzz: got an unknown key, needs one of banks, groups, pair; remove it"),
        ("3", "f.yaml:1:1: $: got 3, needs a mapping"),
    ],
)
def test_the_outermost_level_is_checked_too(text, message):
    with pytest.raises(TopologyError) as caught:
        convert(text)
    assert str(caught.value) == message


def test_a_components_attributes_are_placed_at_its_node_and_its_other_keys_are_known():
    source = YamlSource("f.yaml", "nodes:\n  gemm:\n    kind: pe_gemm\n    cuont: 2\n    rows: 1\n")
    attrs = MappingProxyType({"cuont": 2, "rows": 1})
    with pytest.raises(TopologyError) as caught:
        convert_checked(attrs, Bank, source, ("nodes", "gemm"), also_known=("kind", "count"))
    assert str(caught.value) == (
        "f.yaml:4:5: $.nodes.gemm.cuont: got an unknown key, needs one of rows, clock_ghz, order, mode, name, on, "
        "from, kind, count; did you mean 'count'?"
    )


THREADS = """
import sys
from threading import Barrier, Thread
from types import ModuleType
from kb_topology import YamlSource, convert_checked

def converts():
    begin.wait()
    convert_checked({"a0": {"x": {"a1": None}}}, module.S19, YamlSource("", "x.yaml"))

sys.setswitchinterval(1e-6)
fields = "".join(f"    a{number}: dict[str, S{{of}}] | None = None\\n" for number in range(6))
heads = [f"class S{number}(msgspec.Struct):\\n" + fields.format(of=number - 1) for number in range(1, 20)]
text = "from __future__ import annotations\\nimport msgspec\\nS0 = int\\n" + "".join(heads)
for number in range(20):
    module = sys.modules[f"m{number}"] = ModuleType(f"m{number}")
    exec(text, module.__dict__)
    begin = Barrier(6)
    threads = [Thread(target=converts) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_use_a_type_for_the_first_time_take_turns():
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
