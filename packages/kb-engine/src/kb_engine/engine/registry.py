"""Registry: hardware blocks by name. The entry points `kb.components` list them, built-in blocks included.

Design: docs/design/architecture.md
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from kb_engine.block.component import ComponentBase
from kb_engine.block.register_file import RegisterFileOwner
from kb_messages import StageType, TopologyError
from kb_topology import NODE_KEYS, Node, NodeKind, WrongValueError, YamlSource, convert_checked, did_you_mean

_STAGES: Final = {
    NodeKind.PE_DMA: (StageType.DMA_READ, StageType.DMA_WRITE),
    NodeKind.PE_FETCH_STORE: (StageType.FETCH, StageType.STORE),
    NodeKind.PE_GEMM: (StageType.GEMM,),
    NodeKind.PE_MATH: (StageType.MATH,),
}


def check_duties(node: Node, block_type: type[ComponentBase[Any]], source: YamlSource) -> None:
    """Raises WrongValueError, at the node's `impl`, when *block_type* lacks a duty of the kind of *node*."""
    missing = [each.name for each in _STAGES.get(node.kind, ()) if each not in block_type.serves]
    if missing:
        needs = f"a block that serves {' and '.join(missing)}"
        raise _refusal(node, source, needs, "name a block of that kind")
    if node.kind is NodeKind.PE_FETCH_STORE and not issubclass(block_type, RegisterFileOwner):
        fix = "derive it from kb_engine.block.RegisterFileOwner, so that the op log can name the registers of tiles"
        raise _refusal(node, source, "a RegisterFileOwner", fix)


def _refusal(node: Node, source: YamlSource, needs: str, fix: str) -> WrongValueError:
    got = f"{node.impl} as a {node.kind.value}"
    return WrongValueError(*source.error((*node.yaml_path, "impl"), got, needs, fix).args)


GROUP: Final = "kb.components"
BUILTIN: Final = "builtin."
"""The prefix of the names of built-in blocks, and of no other names."""
_HOME: Final = "kb_components."
"""The package of built-in blocks."""


class Registry:
    """Looks up every registered block by its name.

    Raises TopologyError when two distributions register one name, or when another block has the name of a built-in one.
    """

    def __init__(self, points: list[EntryPoint] | None = None) -> None:
        self._points: dict[str, EntryPoint] = {}
        for point in entry_points(group=GROUP) if points is None else points:
            other = self._points.get(point.name)
            if other is not None and other.value != point.value:
                raise TopologyError(
                    f"component {point.name}",
                    f"two registrations, {_origin(other)} and {_origin(point)}",
                    "one",
                    "uninstall one of them or rename its entry point",
                )
            if point.name.startswith(BUILTIN) and not point.value.startswith(_HOME):
                fix = "rename its entry point, to the name of its own package, for example"
                got = f"a block of {_origin(point)}"
                raise TopologyError(f"component {point.name}", got, f"a built-in one behind `{BUILTIN}`", fix)
            self._points[point.name] = point

    @property
    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._points)

    def versions(self, names: Iterable[str]) -> dict[str, str]:
        """Returns the versions of the distributions that register *names*, by distribution."""
        points = [self._points[name] for name in names if name in self._points]
        return dict(sorted((point.dist.name, point.dist.version) for point in points if point.dist is not None))

    def component_type(self, node: Node, source: YamlSource) -> type[ComponentBase[Any]]:
        """Returns the class behind `node.impl`. Raises TopologyError at the node's place in the file.

        The error is a WrongValueError for a name that is not installed.
        """
        path = (*node.yaml_path, "impl")
        point = self._points.get(node.impl)
        if point is None:
            fix = did_you_mean(node.impl, self.names) or f"installed are {', '.join(self.names) or 'none'}"
            error = source.error(path, repr(node.impl), "the name of an installed component", fix)
            raise WrongValueError(*error.args)
        try:
            loaded = point.load()
        except Exception as error:  # a third party's import may raise anything
            raise source.error(
                path, f"{node.impl}, which fails to load from {_origin(point)} ({error!r})", "a component that loads"
            ) from error
        if not (isinstance(loaded, type) and issubclass(loaded, ComponentBase)):
            raise source.error(path, f"{node.impl} from {_origin(point)}", "a subclass of ComponentBase")
        return loaded

    def spec(self, node: Node, source: YamlSource) -> tuple[type[ComponentBase[Any]], msgspec.Struct]:
        """Returns the class of *node* and its attributes as that class's Spec. Raises TopologyError with file and
        line."""
        component_type = self.component_type(node, source)
        check_duties(node, component_type, source)
        spec: msgspec.Struct = convert_checked(
            node.attrs, component_type.spec_type, source, node.yaml_path, also_known=NODE_KEYS
        )
        return component_type, spec


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "an unknown distribution"
    return f"{package} ({point.value})"
