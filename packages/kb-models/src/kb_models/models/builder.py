"""Builder: the calls of which a model is made. Each call adds ops, and the collectives that the layout needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_engine import cast
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Part, Value
from kb_models.models.rotation import Rotation
from kb_models.ops import (
    Activation,
    AllReduce,
    ClassToken,
    DecodeAttention,
    Depthwise,
    Embedding,
    Experts,
    Gated,
    Gather,
    GlobalPool,
    Grouped,
    Head,
    Heads,
    ImageConvolution,
    Images,
    KvCache,
    Linear,
    Norm,
    Op,
    Out,
    Pool,
    PrefillAttention,
    Projections,
    Quantisation,
    ReduceScatter,
    Rope,
    RopeAppend,
    Router,
    Rows,
    Sum,
    Window,
    normal,
    other_op,
)
from kb_models.ops.block_product import Block as ProductBlock
from kb_models.ops.block_product import BlockProduct


class Builder:
    """Collects the ops of a model on *mesh*, with activations of *dtype*."""

    def __init__(self, mesh: Mesh, dtype: DType) -> None:
        self.mesh = mesh
        self.dtype = dtype
        self.ops: list[Op] = []
        self._names: set[str] = set()
        self.kept: set[str] = set()
        """The names of activations that a model keeps for each of its blocks, such as keys and values."""
        self._prefix = ""
        self._repeats = 1
        self._wholes: dict[str, Value] = {}

    def named(self, prefix: str, repeats: int = 1) -> None:
        """Begins a part of the model, which has it *repeats* times: names of ops begin with *prefix* from now on."""
        self._prefix = f"{prefix}." if prefix else ""
        self._repeats = repeats

    def name(self, name: str) -> str:
        """The whole name of an op or a value of this part."""
        return f"{self._prefix}{name}"

    def input(self, name: str, shape: tuple[int, ...], axes: tuple[str, ...]) -> Value:
        """An activation that comes from elsewhere: normal random numbers."""
        parts = self.mesh.parts(shape, axes)
        content = normal(shape, 1.0, self.dtype)
        name, dtype = self.name(name), self.dtype
        return Value(name=name, shape=shape, dtype=dtype, parts=parts, axes=axes, content=content, role="activation")

    def zeros(self, name: str, like: Value) -> Value:
        """Zeros in the shape and layout of *like*, such as what the first block adds to its input."""
        zero = cast(np.zeros(1, np.float32), like.dtype)
        return Value(
            name=self.name(name),
            shape=like.shape,
            dtype=like.dtype,
            parts=like.parts,
            axes=like.axes,
            content=lambda _: np.broadcast_to(zero, like.shape),
            role="activation",
        )

    def keep(self, *values: Value) -> None:
        """Notes that the model keeps *values* of all blocks, as a cache."""
        self.kept.update(value.name for value in values)

    def add(self, op: Op) -> Value:
        """Adds *op*, and returns the first value that the op writes."""
        if op.name in self._names:
            raise BenchmarkError(f"op {op.name}", "two ops of one name", "one name for each op")
        op.stands_for(self._repeats)
        self._names.add(op.name)
        self.ops.append(op)
        return op.writes[0]

    def rms_norm(self, name: str, x: Value, epsilon: float) -> Value:
        """The RMS norm of the rows of *x*, with a weight for each column."""
        return self.add(Norm(self.name(name), self.mesh, (self.whole(x),), epsilon))

    def layer_norm(self, name: str, x: Value, epsilon: float) -> Value:
        """The layer norm of the rows of *x*, with a weight and a bias for each column."""
        return self.add(Norm(self.name(name), self.mesh, (self.whole(x),), epsilon, is_centred=True))

    def add_norm(
        self, name: str, x: Value, y: Value, epsilon: float, *, is_centred: bool = False
    ) -> tuple[Value, Value]:
        """The sum of *x* and *y*, a residual stream, and its RMS norm, or its layer norm with *is_centred*."""
        terms = self._aligned((x, y))
        norm = Norm(self.name(name), self.mesh, terms, epsilon, is_centred=is_centred, keeps_sum=True)
        normed = self.add(norm)
        return norm.writes[1], normed

    def norm_of_sum(self, name: str, terms: Sequence[Value], epsilon: float, *, is_centred: bool = False) -> Value:
        """The RMS norm of the rows of the sum of *terms*, or the layer norm with *is_centred*."""
        return self.add(Norm(self.name(name), self.mesh, self._aligned(terms), epsilon, is_centred=is_centred))

    def plus(self, name: str, x: Value, y: Value, activation: str = "none") -> Value:
        """The sum of *x* and *y*, and *activation* of it."""
        return self.add(Sum(self.name(name), self.mesh, self._on_one_axis((x, y)), activation))

    def activation(self, name: str, x: Value, activation: str) -> Value:
        """*activation* of each element of *x*: `relu`, `silu`, `gelu`, `gelu_tanh`, `tanh` or `sigmoid`."""
        return self.add(Sum(self.name(name), self.mesh, (x,), activation))

    def rows(self, name: str, terms: Sequence[Value], every: int, *, is_first: bool = False) -> Value:
        """The last row of each sequence of *every* rows, or the first: the sum of *terms*."""
        return self.add(Rows(self.name(name), self.mesh, self._aligned(terms), every, is_first=is_first))

    def op(self, kind: str, name: str, *arguments: object, **named: object) -> Value:
        """An op of another package: the entry point *kind* of `kb.ops`, made with *arguments* and *named*.

        Raises BenchmarkError for a kind that no installed package has.
        """
        return self.add(other_op(kind)(self.name(name), self.mesh, *arguments, **named))

    def gather(self, name: str, x: Value) -> Value:
        """*x* whole in each cube, apart from sequences: a cube keeps the rows of its part of the axis `batch`."""
        return self._gathered(self.name(name), x)

    def whole(self, x: Value) -> Value:
        """*x* with all features in each cube: *x* itself, or a gather of it, which is added where it is first asked
        for."""
        if self.mesh.ways(x.axes[-1]) == 1:
            return x
        if x.name not in self._wholes:
            self._wholes[x.name] = self._gathered(f"{x.name}.all_gather", x)
        return self._wholes[x.name]

    @property
    def _rows_axis(self) -> str:
        """The axis of the rows between products: `tokens` where the layout splits the tokens, otherwise `batch`.

        Raises BenchmarkError for a layout that splits the batch over levels over which it does not split the tokens.
        """
        mesh = self.mesh
        if mesh.ways("tokens") == 1:
            return "batch"
        if not set(mesh.levels("batch")) <= set(mesh.levels("tokens")):
            over = [f"{axis} over {'*'.join(mesh.levels(axis))}" for axis in ("batch", "tokens")]
            needs = "tokens over all levels of the batch, whose rows they are"
            raise BenchmarkError("map", " and ".join(over), needs, "write tokens=sip*cube")
        return "tokens"

    def _whole_rows(self, x: Value) -> Value:
        """*x* with all features, and with all rows of its part of the batch, in each cube."""
        if x.axes[0] != "tokens" or self.mesh.ways("tokens") == 1:
            return self.whole(x)
        if x.name not in self._wholes:
            self._wholes[x.name] = self._on_rows(f"{x.name}.all_gather", x, "batch")
        return self._wholes[x.name]

    def _aligned(self, terms: Sequence[Value]) -> list[Value]:
        """*terms* with all features in each cube, on the rows of one axis."""
        return self._on_one_axis([self.whole(each) for each in terms])

    def _on_one_axis(self, terms: Sequence[Value]) -> list[Value]:
        """*terms* on the rows of `tokens`, where the layout splits the tokens of one of them; otherwise as they are."""
        if self.mesh.ways("tokens") == 1 or all(each.axes[0] != "tokens" for each in terms):
            return list(terms)
        return [self._on_rows(f"{each.name}.rows", each, "tokens") for each in terms]

    def _on_rows(self, name: str, x: Value, axis: str) -> Value:
        """*x* with all features, and in each cube the rows of its part of *axis*."""
        axes = axis, ""
        bounds = [part.bounds for part in self.mesh.parts(x.shape, axes)]
        return x if bounds == [part.bounds for part in x.parts] else self.add(Gather(name, self.mesh, x, bounds, axes))

    def _summed(self, x: Value) -> Value:
        """The sum of *x*, the partial sums of cubes. Each cube gets the rows that it has between products."""
        if self._rows_axis == "tokens" and x.axes[1] == "batch":
            return self.add(ReduceScatter(f"{x.name}.reduce_scatter", self.mesh, x, "tokens"))
        return self.add(AllReduce(f"{x.name}.all_reduce", self.mesh, x))

    def _gathered(self, name: str, x: Value) -> Value:
        axes = tuple(axis if axis == "batch" else "" for axis in x.axes)
        bounds = [
            tuple(own if axis else (0, size) for own, size, axis in zip(part.bounds, x.shape, axes, strict=True))
            for part in x.parts
        ]
        return self.add(Gather(name, self.mesh, x, bounds, axes))

    def embedding(self, name: str, rows: int, vocab: int, width: int) -> Value:
        """Rows of a table of *vocab* x *width*, split over `vocab`, by random numbers that the kernel loads."""
        return self.add(Embedding(self.name(name), self.mesh, rows, vocab, width, self.dtype, self._rows_axis))

    def head(self, name: str, x: Value, vocab: int) -> Value:
        """The number of the word, i32, with the largest product with each row of *x*."""
        return self.add(Head(self.name(name), self.mesh, self._whole_rows(x), vocab))

    def experts(self, name: str, x: Value, n_experts: int, top_k: int, mlp: int) -> Value:
        """The mixture of *top_k* of *n_experts* experts of *mlp* columns, which a router chooses for each row of *x*.

        With the axis `experts` split over cubes, rows go to the cubes of their experts. With the axis `mlp` split, each
        cube has columns of the experts, and their partial sums are added up.
        """
        x, name = self._whole_rows(x), self.name(name)
        router = Router(f"{name}.router", self.mesh, x, n_experts, top_k)
        self.add(router)
        mixture = Experts(name, self.mesh, x, router.ids, router.shares, n_experts, mlp)
        y = self.add(mixture)
        if mixture.is_partial:
            return self._summed(y)
        return self._on_rows(f"{name}.all_gather", y, self._rows_axis if x.axes[0] == "batch" else x.axes[0])

    def matmul(self, name: str, x: Value, y: Value, batch: int = 1) -> Value:
        """The products of *batch* matrices that are below each other in the rows of *x*, with those in *y*."""
        (rows, k), (depth, n) = x.shape, y.shape
        if rows % batch or depth != batch * k:
            got = f"{x.name} of {x.shape} and {y.name} of {y.shape} for {batch} products"
            raise BenchmarkError(f"op {self.name(name)}", got, f"{k} rows of {y.name} for each product")
        parts = tuple(Part((part.bounds[0], (0, n)), part.cube) for part in x.parts)
        z = Value(name=self.name(name), shape=(rows, n), dtype=x.dtype, parts=parts, axes=(x.axes[0], ""))
        m = rows // batch
        spans = [((i * m, (i + 1) * m), (i * k, (i + 1) * k)) for i in range(batch)]
        blocks = [ProductBlock((own, (0, k)), (other, (0, n)), (own, (0, n)), False) for own, other in spans]
        return self.add(BlockProduct(z.name, self.mesh, x, y, blocks, z))

    def grouped(self, name: str, x: Value, groups: int, n: int, axis: str, sizes: Value | None = None) -> Value:
        """Each group of rows of *x* times a weight of its own, with *n* columns on *axis*. *sizes*, which the kernel
        loads, has the rows of each group, and is random by default."""
        return self.add(Grouped(self.name(name), self.mesh, self._whole_rows(x), groups, n, axis, sizes))

    def linear(
        self,
        name: str,
        x: Value,
        n: int,
        axis: str,
        *,
        unit: int = 1,
        bias: bool = False,
        activation: str = "none",
        residual: Value | None = None,
        weights: Quantisation = "same",
    ) -> Value:
        """activation(X W + bias + residual) with *n* columns on *axis*, in groups of *unit*. Where *x* is split along
        K, an all_reduce sums the parts, and the activation is an op of its own."""
        shares_level = set(self.mesh.levels("tokens")) & set(self.mesh.levels(axis))
        if x.axes[0] == "tokens" and (shares_level or any(part.by_rows for part in x.parts)):
            x = self._whole_rows(x)
        split = self.mesh.ways(x.axes[-1]) > 1
        function = "none" if split else activation
        made = Linear(
            self.name(name),
            self.mesh,
            x,
            n,
            axis,
            unit=unit,
            bias=bias,
            activation=function,
            residual=residual,
            weights=weights,
        )
        y = self.add(made)
        if not made.is_partial:
            return y
        y = self._summed(y)
        return y if activation == "none" else self.activation(f"{name}.{activation}", y, activation)

    def projections(
        self,
        name: str,
        x: Value,
        outs: Sequence[tuple[str, int, str, int]],
        *,
        bias: bool = False,
        weights: Quantisation = "same",
    ) -> tuple[Value, ...]:
        """X W in one launch for a W for each of *outs*: name, columns, axis, and columns of a head."""
        named = [Out(self.name(out), n, axis, unit) for out, n, axis, unit in outs]
        op = Projections(self.name(name), self.mesh, self._whole_rows(x), named, bias=bias, weights=weights)
        self.add(op)
        return op.writes

    def gated(
        self, name: str, x: Value, n: int, axis: str, *, activation: str = "silu", weights: Quantisation = "same"
    ) -> Value:
        """activation(X Wg) * (X Wu) in one launch."""
        x = self._whole_rows(x)
        return self.add(Gated(self.name(name), self.mesh, x, n, axis, activation=activation, weights=weights))

    def prefill_attention(
        self,
        name: str,
        qkv: tuple[Value, Value, Value],
        heads: Heads,
        sequences: int,
        *,
        causal: bool = True,
        rotation: Rotation | None = None,
    ) -> Value:
        """The rows of *qkv*, of as many tokens for each of *sequences*, attend to each other: (rows, heads * d).

        With *rotation*, queries and keys are turned in a launch before. Keys and values stay where they are, as a
        cache. Raises BenchmarkError for other shapes, and for parts that cut a head.
        """
        q, k, v = qkv
        heads.check(self.name(name), q, k, v, sequences)
        if rotation is not None:
            frequencies = rotation.frequencies(heads.head_dim)
            rope = Rope(f"{self.name(name)}.rope", self.mesh, q, k, heads, frequencies, sequences)
            self.add(rope)
            q, k = rope.writes
        return self.add(PrefillAttention(self.name(name), self.mesh, (q, k, v), heads, sequences, causal))

    def decode_attention(
        self,
        name: str,
        qkv: tuple[Value, Value, Value],
        heads: Heads,
        context: int,
        *,
        rotation: Rotation | None = None,
        page: int = 0,
        order: int = 0,
    ) -> Value:
        """One new token for each row of *qkv* attends to *context* keys, its own among them: (rows, heads * d).

        The keys before are random. The new key and value go into the cache: turned with *rotation*, in a launch of
        their own, and as they are without. With *page*, the cache has blocks of as many keys, at places that follow
        from *order*. Raises BenchmarkError for other shapes, and for parts that cut a head.
        """
        q, k, v = qkv
        heads.check(self.name(name), q, k, v, q.shape[0])
        cache = KvCache(f"{self.name(name)}.cache", self.mesh, q, heads, context, page=page, order=order)
        new: tuple[Value, Value] | None = (k, v)
        turned = q
        if rotation is not None:
            frequencies = rotation.frequencies(heads.head_dim)
            turned, new = self.add(RopeAppend(f"{self.name(name)}.rope", self.mesh, qkv, frequencies, cache)), None
        return self.add(DecodeAttention(self.name(name), self.mesh, turned, q, cache, new))

    def images(self, name: str, batch: int, height: int, width: int, channels: int) -> Images:
        """Images that come from elsewhere, whose pixels are split over the axis `pixels`, image by image and row by
        row; or over `batch` where the layout does not name `pixels`.

        Raises BenchmarkError for a layout that names both.
        """
        rows = "pixels" if self.mesh.ways("pixels") > 1 else "batch"
        if rows == "pixels" and self.mesh.ways("batch") > 1:
            needs = "pixels alone, which are split image by image"
            raise BenchmarkError("map", "batch and pixels", needs, "write pixels=sip*cube")
        return Images(self.input(name, (batch * height * width, channels), (rows, "")), batch, height, width)

    def convolution(
        self,
        name: str,
        x: Images,
        n: int,
        window: Window,
        *,
        groups: int = 1,
        bias: bool = True,
        activation: Activation = "none",
        residual: Images | None = None,
        axis: str = "channels",
    ) -> Images:
        """*n* filters of *window* over *x*, whose filters are split over *axis*; see `ImageConvolution`."""
        given = x._replace(value=self.whole(x.value))
        added = None if residual is None else residual.value
        op = ImageConvolution(
            *(self.name(name), self.mesh, given, n, window),
            groups=groups,
            bias=bias,
            activation=activation,
            residual=added,
            axis=axis,
        )
        self.add(op)
        return op.result

    def depthwise(self, name: str, x: Images, window: Window, *, activation: Activation = "none") -> Images:
        """A window of its own over each channel of *x*, with a bias."""
        op = Depthwise(self.name(name), self.mesh, x, window, activation=activation)
        self.add(op)
        return op.result

    def max_pool(self, name: str, x: Images, window: Window) -> Images:
        """The largest pixel of each channel under *window*."""
        op = Pool(self.name(name), self.mesh, x, window, "max")
        self.add(op)
        return op.result

    def average_pool(self, name: str, x: Images, window: Window, *, counts_padding: bool = True) -> Images:
        """The mean of each channel under *window*, of pixels inside of the image alone without *counts_padding*."""
        op = Pool(self.name(name), self.mesh, x, window, "average", counts_padding=counts_padding)
        self.add(op)
        return op.result

    def class_token(self, name: str, x: Images) -> Value:
        """The pixels of *x* as tokens, after a class token for each image, with positions added."""
        return self.add(ClassToken(self.name(name), self.mesh, x.value, x.height * x.width))

    def global_pool(self, name: str, x: Images) -> Value:
        """The mean of all pixels of each image: (batch, channels)."""
        return self.add(GlobalPool(self.name(name), self.mesh, x))
