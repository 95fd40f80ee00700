"""What the kind of a node asks of the block there: the stages of every plan that name such a node, and a role."""

from __future__ import annotations

from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.register_file import RegisterFileOwner
from kb_messages import StageType
from kb_topology import Node, NodeKind, WrongValueError, YamlSource

_STAGES: Final = {
    NodeKind.PE_DMA: (StageType.DMA_READ, StageType.DMA_WRITE),
    NodeKind.PE_FETCH_STORE: (StageType.FETCH, StageType.STORE),
    NodeKind.PE_GEMM: (StageType.GEMM,),
    NodeKind.PE_MATH: (StageType.MATH,),
}


def check_duties(node: Node, block_type: type[ComponentBase[Any]], source: YamlSource) -> None:
    """Raise WrongValueError, at the node's `impl`, when *block_type* cannot do what the kind of *node* asks."""
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
