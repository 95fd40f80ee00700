"""Linear ops: products of activations with weights, quantised ones too, and what follows from products alone."""

from kb_models.ops.linear.embedding import Embedding as Embedding
from kb_models.ops.linear.grouped import Grouped as Grouped
from kb_models.ops.linear.head import Head as Head
from kb_models.ops.linear.linear import Gated as Gated
from kb_models.ops.linear.linear import Linear as Linear
from kb_models.ops.linear.linear import Out as Out
from kb_models.ops.linear.linear import Projections as Projections
from kb_models.ops.linear.weights import Quantisation as Quantisation
from kb_models.ops.linear.weights import normal as normal
