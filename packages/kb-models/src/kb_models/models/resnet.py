"""ResNet: stages of residual blocks of convolutions, from 18 to 152 layers.

Source: He et al., arXiv 1512.03385. Version 1.5 has the stride of a bottleneck in its 3 x 3 convolution, as published
weights do; `downsample_in_bottleneck` puts the stride into the first one, as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from kb_engine import WorkloadStep
from kb_messages import BenchmarkError
from kb_models.layout import Layout
from kb_models.models.architecture import Architecture
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.labels import labels_of
from kb_models.models.params import ModelParams, Phase
from kb_models.ops import Images, Window


class Layer(NamedTuple):
    """A convolution of a residual block: its name, its channels and filters, and the side and stride of its window."""

    name: str
    channels: int
    n: int
    side: int
    stride: int = 1


class Block(NamedTuple):
    """A residual block: its layers, and the layer beside them that the residual passes, if there is one."""

    name: str
    layers: tuple[Layer, ...]
    shortcut: Layer | None


class ResNet(Architecture):
    """A classifier of images, always whole: 53 convolutions and one product in ResNet-50.

    `ModelParams.batch` is the number of images, and each counts as one token.
    """

    phases: ClassVar[tuple[Phase, ...]] = ("prefill",)
    positions = 1

    def __init__(self, keys: ConfigKeys) -> None:
        self.channels = keys.size("num_channels", 3)
        self.side = keys.size("image_size", 224)
        self.stem = keys.size("embedding_size", 64)
        self.depths = self._sizes(keys, "depths")
        self.widths = self._sizes(keys, "hidden_sizes")
        if len(self.depths) != len(self.widths):
            raise keys.error("depths", f"{len(self.depths)} stages", f"{len(self.widths)}, as hidden_sizes has")
        self.is_bottleneck = keys.choice("layer_type", ("bottleneck", "basic"), "bottleneck") == "bottleneck"
        if self.is_bottleneck and any(width % 4 for width in self.widths):
            raise keys.error("hidden_sizes", str(list(self.widths)), "multiples of 4: bottlenecks have a fourth")
        self.first_stride = 2 if keys.flag("downsample_in_first_stage", False) else 1
        self.stride_first = keys.flag("downsample_in_bottleneck", False)
        keys.only("hidden_act", ["relu"], "other activations are not built")
        for of_backbones in ("out_features", "out_indices", "stage_names"):
            keys.get(of_backbones)
        self.classes = labels_of(keys)

    @staticmethod
    def _sizes(keys: ConfigKeys, key: str) -> tuple[int, ...]:
        found = keys.get(key, [])
        if not isinstance(found, list) or not found or any(type(each) is not int or each < 1 for each in found):
            raise keys.error(key, str(found), "a list of integers of 1 or more, one for each stage")
        return tuple(found)

    @property
    def blocks(self) -> Iterator[Block]:
        """The residual blocks, in order."""
        channels = self.stem
        for stage, (depth, width) in enumerate(zip(self.depths, self.widths, strict=True)):
            for number in range(depth):
                stride = (2 if stage else self.first_stride) if number == 0 else 1
                shortcut = Layer("shortcut", channels, width, 1, stride) if stride > 1 or channels != width else None
                layers = self._bottleneck if self.is_bottleneck else self._basic
                yield Block(f"stage{stage + 1}.block{number + 1}", layers(channels, width, stride), shortcut)
                channels = width

    def _bottleneck(self, channels: int, width: int, stride: int) -> tuple[Layer, ...]:
        first, second = (stride, 1) if self.stride_first else (1, stride)
        inner = width // 4
        return (
            Layer("reduce", channels, inner, 1, first),
            Layer("spatial", inner, inner, 3, second),
            Layer("expand", inner, width, 1),
        )

    def _basic(self, channels: int, width: int, stride: int) -> tuple[Layer, ...]:
        return Layer("first", channels, width, 3, stride), Layer("second", width, width, 3)

    @property
    def layers_of_the_whole(self) -> list[Layer]:
        """All convolutions."""
        found = [Layer("stem", self.channels, self.stem, 7, 2)]
        for block in self.blocks:
            found += [*([block.shortcut] if block.shortcut else []), *block.layers]
        return found

    @property
    def parameters(self) -> int:
        """Windows, a scale and a shift of the batch norm of each filter, and the classifier with its bias.

        A run has the scales in the weights of the windows.
        """
        convolutions = sum(each.channels * each.n * each.side**2 + 2 * each.n for each in self.layers_of_the_whole)
        return convolutions + (self.widths[-1] + 1) * self.classes

    @property
    def axes(self) -> Mapping[str, int]:
        """Classes; filters, of which the stem has fewest; the pixels of any image are split as they come."""
        return {"vocab": self.classes, "channels": min(self.stem, *self.widths)}

    def layouts(self, p: ModelParams, n_sips: int, n_cubes: int) -> Iterator[Layout]:
        """Pixels over all cubes, because windows read few pixels of other cubes; and classes over the cubes of a SIP,
        where there are as many."""
        levels = tuple(level for level, n in (("sip", n_sips), ("cube", n_cubes)) if n > 1)
        found: dict[str, tuple[str, ...]] = {"pixels": levels} if levels else {}
        yield found | ({"vocab": ("cube",)} if 1 < n_cubes <= self.classes else {})

    def build(self, m: Builder, p: ModelParams) -> None:
        """The whole network: the stem, all blocks, the mean of each image, and the classifier.

        Raises BenchmarkError for quantised weights, which no convolution has.
        """
        if p.weights != "same":
            raise BenchmarkError("weights", p.weights, "same", "convolutions of quantised weights are not built")
        x = m.images("images", p.batch, self.side, self.side, self.channels)
        x = m.convolution("stem", x, self.stem, _window(7, 2), activation="relu")
        x = m.max_pool("pool", x, _window(3, 2))
        for block in self.blocks:
            m.named(block.name)
            x = self._block(m, block, x)
        m.named("")
        pooled = m.global_pool("mean", x)
        m.linear("classes", pooled, self.classes, "vocab", bias=True)

    @staticmethod
    def _block(m: Builder, block: Block, x: Images) -> Images:
        """A residual block: the sum is part of the last convolution."""
        residual = x
        if block.shortcut is not None:
            residual = m.convolution("shortcut", x, block.shortcut.n, _window(1, block.shortcut.stride))
        for layer in block.layers:
            last: dict[str, Any] = {"residual": residual} if layer is block.layers[-1] else {}
            x = m.convolution(layer.name, x, layer.n, _window(layer.side, layer.stride), activation="relu", **last)
        return x

    def step(self, p: ModelParams) -> WorkloadStep:
        """One pass of all images."""
        return WorkloadStep(phase="pass", items=p.batch, unit="images")


def _window(side: int, stride: int) -> Window:
    """A window of *side* x *side* in the middle of its pixels."""
    return Window.of(side, stride, side // 2)
