"""Ops: the steps of models, each with its kernels by layout, its reference and its tolerance."""

from kb_models.ops.attention import DecodeAttention as DecodeAttention
from kb_models.ops.attention import Heads as Heads
from kb_models.ops.attention import KvCache as KvCache
from kb_models.ops.attention import PrefillAttention as PrefillAttention
from kb_models.ops.attention import Rope as Rope
from kb_models.ops.attention import RopeAppend as RopeAppend
from kb_models.ops.collective import AllReduce as AllReduce
from kb_models.ops.gather import Gather as Gather
from kb_models.ops.images import Activation as Activation
from kb_models.ops.images import Depthwise as Depthwise
from kb_models.ops.images import GlobalPool as GlobalPool
from kb_models.ops.images import ImageConvolution as ImageConvolution
from kb_models.ops.images import Images as Images
from kb_models.ops.images import Pool as Pool
from kb_models.ops.images import Window as Window
from kb_models.ops.linear import Linear as Linear
from kb_models.ops.linear import normal as normal
from kb_models.ops.norm import Norm as Norm
from kb_models.ops.op import Op as Op
from kb_models.ops.op import Read as Read
from kb_models.ops.others import other_op as other_op
from kb_models.ops.rows import Rows as Rows
from kb_models.ops.sums import Sum as Sum
