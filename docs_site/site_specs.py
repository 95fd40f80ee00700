"""Reference of the files of chips: every Spec of the format and of the blocks, from the classes themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import reduce
from importlib.metadata import entry_points
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType
from msgspec.structs import FieldInfo, fields
from site_signatures import default_text

from kb_cli.benchmark import bundled
from kb_cli.benchmark.values.field_values import describe
from kb_components.pe.pe_gemm import PeGemmSpec
from kb_messages import DType
from kb_messages.lever import levers_of
from kb_topology import NodeKind, load_topology
from kb_topology.chip import spec

UNITS = {
    "gbs": "GB/s",
    "ghz": "GHz",
    "mhz": "MHz",
    "ns": "ns",
    "ps_per_mm": "ps/mm",
    "mm": "mm",
    "kib": "KiB",
    "cycles": "cycles",
    "nbytes": "bytes",
    "depth": "entries",
}
"""The unit of a field, by how its name ends."""
FORMAT = [
    each for each in reversed(vars(spec).values()) if isinstance(each, type) and issubclass(each, Struct)
    if each.__module__.startswith("kb_topology.")
]  # fmt: skip
"""The parts of a topology file, from the whole to the smallest."""


def spec_pages() -> dict[str, str]:
    """The pages of the format and of the blocks, by their places in the site."""
    return {"reference/topology-file.md": _format_page(), "reference/blocks.md": _blocks_page()}


def blocks() -> dict[str, Any]:
    """Every built-in block by its `impl`."""
    found = {each.name: each for each in entry_points(group="kb.components") if each.name.startswith("builtin.")}
    return {name: found[name].load() for name in sorted(found)}


def unit_of(name: str) -> str:
    """The unit of the field *name*; empty for a number without one."""
    return next((unit for end, unit in UNITS.items() if name.endswith(f"_{end}")), "")


def _format_page() -> str:
    parts = [_FORMAT_TEXT]
    parts += [f"## {each.__name__}\n\n{_doc(each)}\n\n{_table(each)}" for each in FORMAT]
    kinds = ", ".join(f"`{kind.value}`" for kind in NodeKind)
    forwarding = ", ".join(f"`{kind.value}`" for kind in NodeKind if kind in spec.FORWARDING)
    parts.append(
        f"## Kinds of nodes\n\n{kinds}. A route may pass through {forwarding}. It can only begin or end elsewhere."
    )
    return "\n\n".join(parts) + "\n"


def _blocks_page() -> str:
    used = _values_in_chips()
    parts = [_BLOCKS_TEXT]
    for name, block in blocks().items():
        what = "\n\n".join(dict.fromkeys(filter(None, (_doc(block), _doc(block.spec_type)))))
        parts.append(f"## {name}\n\n{what}\n\n{_table(block.spec_type, used.get(name, {}))}{_costs(block)}")
    return "\n\n".join(parts) + "\n"


def _values_in_chips() -> dict[str, dict[str, str]]:
    """For each block and attribute, the values in the bundled chips, each value with the chip that has it first."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for chip in sorted(bundled.names("topologies"), key=lambda name: ("/" in name, name != "one_cube", name)):
        for node in load_topology(bundled.find("topologies", chip)).graph.nodes.values():
            for attribute, value in node.attrs.items():
                values = found.setdefault(node.impl, {}).setdefault(attribute, {})
                values.setdefault(str(value), chip)
    return {
        impl: {attribute: _few(values) for attribute, values in each.items()} for impl, each in sorted(found.items())
    }


def _few(values: dict[str, str]) -> str:
    shown = [f"{value} (`{chip}`)" for value, chip in values.items()]
    return ", ".join(shown[:3]) + (f", {len(shown) - 3} more" if len(shown) > 3 else "")


def _table(spec_type: type[Struct], used: dict[str, str] | None = None) -> str:
    levers = dict(levers_of(spec_type))
    title = "| field | value | unit | default |" + (" in bundled chips |" if used is not None else "")
    rows = [title, "| --- " * (title.count("|") - 1) + "|"]
    for each in fields(spec_type):
        name = each.encode_name
        faster = f"; {levers[name].better} is faster" if name in levers else ""
        made = each.default_factory() if each.default_factory is not NODEFAULT else each.default
        more = f" {used.get(name, 'none sets it')} |" if used is not None else ""
        rows.append(f"| `{name}` | {_words(each)}{faster} | {unit_of(name)} | {default_text(made)} |{more}")
    return "\n".join(rows)


def _words(field: FieldInfo) -> str:
    """The type of *field* in words; of another part of a file, a link to it."""
    if field.name == "attrs":
        return "[what the block allows](blocks.md); in a file they stand beside `kind` and `impl`"
    if field.name == "macs_per_cell":
        return f"a number > 0 for {', '.join(each.value for each in _rates())}, or for other types"
    inner = [each for each in _alternatives(field.type) if each not in (UnsetType, type(None))]
    parts = [each for each in inner if get_origin(each) in (list, dict) or _is_part(each)]
    plain = [each for each in inner if each not in parts]
    return " or ".join([*([describe(reduce(or_, plain))] if plain else []), *map(_part, parts)]).replace("|", "\\|")


def _is_part(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)


def _part(type_: Any) -> str:
    """A part of a file, a number, a list or a mapping of parts, numbers or text, in words."""
    origin, args = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _part(args[0]) if _is_part(args[0]) or get_origin(args[0]) is not None else describe(type_)
    if origin is tuple:
        return f"{len(args)} numbers"
    if origin in (list, dict):
        each = args[-1]
        has_parts = _is_part(each) or get_origin(each) in (Annotated, tuple)
        inner = _part(each) if has_parts else "values" if get_origin(each) is UnionType else "text"
        return f"a list of {inner}" if origin is list else f"{inner} for each name"
    return f"[{type_.__name__}](#{type_.__name__.lower()})"


def _rates() -> dict[DType, float]:
    return msgspec.structs.fields(PeGemmSpec)[-1].default_factory()


def _alternatives(type_: Any) -> Iterator[Any]:
    if get_origin(type_) in (Union, UnionType):
        yield from (part for each in get_args(type_) for part in _alternatives(each))
    else:
        yield type_


def _costs(block: Any) -> str:
    """What the block says of the time of a service, where it says more than its Spec."""
    found = vars(block).get("service_ps")
    text = inspect.getdoc(found) if found is not None else None
    return f"\n\n**The time of a service.** {_flowed(text)}" if text else ""


def _doc(part: Any) -> str:
    return _flowed(inspect.cleandoc(vars(part).get("__doc__") or ""))


def _flowed(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


_FORMAT_TEXT = """\
# The topology file

A chip is a YAML file. [kb-topology](../packages/kb-topology.md#the-file) explains the format with examples.
`kb topology check FILE` checks a file, and the [bundled chips](chips.md) are files to start from. This page has every
field of every part, made from the classes that read the file. A field without a default is needed. A field that no
class knows is refused."""
_BLOCKS_TEXT = """\
# Blocks and their attributes

The behaviour of a node is a block, which the chip's file names: `impl: builtin.pe_gemm`. This page has every attribute
of every built-in block, made from the blocks' Specs. Durations are rounded up to whole picoseconds, once, where they
are used. *half is faster* and *twice is faster* mark the values that `kb report --levers N` tries. *one more is faster*
marks numbers of places, which are tried where programs of a launch wait for each other. Where a text says *Source:
assumed*, there is no published number, and the chip's file should say where its value is from.

[kb-components](../packages/kb-components.md) tells what each block costs in one table.
[Writing a component](../packages/kb-engine.md#writing-a-component) tells how to add a block."""
