"""Whole models on simulated chips: layouts, ops by layout, builders, configurations, and networks in files."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_models.face import model as model
    from kb_models.face import names as names
    from kb_models.face import run as run
    from kb_models.layout.mesh import Mesh as Mesh
    from kb_models.layout.tensors import Tensors as Tensors
    from kb_models.layout.value import Part as Part
    from kb_models.layout.value import Value as Value
    from kb_models.models.architecture import Architecture as Architecture
    from kb_models.models.builder import Builder as Builder
    from kb_models.models.config import ConfigKeys as ConfigKeys
    from kb_models.models.params import ModelParams as ModelParams
    from kb_models.models.params import Size as Size
    from kb_models.ops.op import Op as Op
    from kb_models.ops.op import Read as Read
    from kb_models.workload import ModelWorkload as ModelWorkload
    from kb_models.workload import OpsWorkload as OpsWorkload

__version__ = "0.1.0"

_NAMES = {
    "kb_models.face": ("model", "names", "run"),
    "kb_models.layout.mesh": ("Mesh",),
    "kb_models.layout.tensors": ("Tensors",),
    "kb_models.layout.value": ("Part", "Value"),
    "kb_models.models.architecture": ("Architecture",),
    "kb_models.models.builder": ("Builder",),
    "kb_models.models.config": ("ConfigKeys",),
    "kb_models.models.params": ("ModelParams", "Size"),
    "kb_models.ops.op": ("Op", "Read"),
    "kb_models.workload": ("ModelWorkload", "OpsWorkload"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
