"""Ops on images, whose pixels are the rows of an activation: convolutions and pools."""

from kb_models.ops.images.convolution import Activation as Activation
from kb_models.ops.images.convolution import ImageConvolution as ImageConvolution
from kb_models.ops.images.depthwise import Depthwise as Depthwise
from kb_models.ops.images.patches import ClassToken as ClassToken
from kb_models.ops.images.pool import GlobalPool as GlobalPool
from kb_models.ops.images.pool import Pool as Pool
from kb_models.ops.images.window import Images as Images
from kb_models.ops.images.window import Window as Window
