"""Layouts: the axes of a model, the cubes that share them, and the tensors of each cube."""

from kb_models.layout.cover import Block as Block
from kb_models.layout.cover import cover as cover
from kb_models.layout.cover import overlaps as overlaps
from kb_models.layout.mesh import AXES as AXES
from kb_models.layout.mesh import Axis as Axis
from kb_models.layout.mesh import Cube as Cube
from kb_models.layout.mesh import Layout as Layout
from kb_models.layout.mesh import Mesh as Mesh
from kb_models.layout.mesh import parse_map as parse_map
from kb_models.layout.tensors import Tensors as Tensors
from kb_models.layout.value import Blocks as Blocks
from kb_models.layout.value import Part as Part
from kb_models.layout.value import Place as Place
from kb_models.layout.value import Value as Value
from kb_models.layout.value import cut as cut
from kb_models.layout.value import whole as whole
