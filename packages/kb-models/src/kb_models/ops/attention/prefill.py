"""PrefillAttention: the tokens of whole sequences attend to each other, causally or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from msgspec import Struct

from kb_engine import Host, TensorRef
from kb_messages import BenchmarkError
from kb_models.layout import Block, Mesh, Tensors, Value, cover
from kb_models.layout.cover import Range
from kb_models.layout.value import Array, Bounds
from kb_models.ops.attention.flash import AHEAD, attended, chunks_of, rows_for, steps_for
from kb_models.ops.attention.heads import Heads, attention, attention_tolerance
from kb_models.ops.attention.rope import wait_for
from kb_models.ops.op import Op, Read

ROWS: Final = (64, 32, 16)
"""The rows of the GEMM array that a job may fill: tokens times heads of one key head. Source: the arrays of the bundled
chips have 64 rows; with fewer rows, causal work is spread more evenly."""


class Step(Struct, frozen=True):
    """A block of the keys, which is the same block of the values, from position `first` of the sequence on. With
    `is_masked` some rows of the job come before some of the keys."""

    block: Block
    first: int
    is_masked: bool


class Job(Struct, frozen=True):
    """Rows and columns of a part of the queries, from position `first` of a sequence on, with some heads of one key
    head side by side. The result goes to the same rows and columns of the parts `results`, which are copies."""

    part: int
    rows: slice
    cols: slice
    first: int
    chunks: tuple[tuple[Step, ...], ...]
    results: tuple[int, ...]


class Work(NamedTuple):
    """The rows of a job before it has steps: positions `first` to `end` - 1 of a sequence, and heads of a key head."""

    sequence: int
    first: int
    end: int
    heads: Range


def kernel(
    tl: Any,
    q: Sequence[TensorRef],
    caches: Sequence[Sequence[TensorRef]],
    out: Sequence[TensorRef],
    work: Sequence[Sequence[Job]],
    d: int,
) -> None:
    """Program p does its jobs in order. The heads of a token are rows of the product, one after the other."""
    jobs = work[tl.program_id()]
    loads = tl.ahead(loads_of(tl, q, caches, jobs), AHEAD)
    stores: list[Any] = []
    for job in jobs:
        queries = next(loads)
        masks = [[mask_of(tl, queries.shape, job, step, d) for step in chunk] for chunk in job.chunks]
        found = attended(tl, queries.reshape(-1, d), masks, loads, d**-0.5)
        rows = (found.values * (1.0 / found.total)).to(out[0].dtype).reshape(*queries.shape)
        begun = [tl.store_async(out[part][job.rows, job.cols], rows) for part in job.results]
        wait_for(tl, stores)
        stores = begun
    wait_for(tl, stores)


def loads_of(
    tl: Any, q: Sequence[TensorRef], caches: Sequence[Sequence[TensorRef]], jobs: Sequence[Job]
) -> Iterator[Any]:
    """The loads of *jobs* in the order of their use: queries, then for each chunk its keys and its values."""
    for job in jobs:
        yield tl.load_async(q[job.part][job.rows, job.cols])
        for chunk in job.chunks:
            for cache in caches:
                for step in chunk:
                    yield tl.load_async(cache[step.block.part][step.block.rows, step.block.cols])


def mask_of(tl: Any, shape: tuple[int, ...], job: Job, step: Step, d: int) -> Any:
    """Whether the key is not after the token, for each row of queries of *shape* and each key of *step*; None if so.

    Row r is of token first + r // heads, and r // heads >= key if and only if r >= key * heads.
    """
    if not step.is_masked:
        return None
    heads = shape[1] // d
    rows = tl.arange(job.first * heads, (job.first + shape[0]) * heads)
    n_keys = step.block.rows.stop - step.block.rows.start
    return rows[:, None] >= (tl.arange(step.first, step.first + n_keys) * heads)[None, :]


class PrefillAttention(Op):
    """softmax(Q K^T / sqrt(d)) V of *q*, *k* and *v*, activations of *sequences* sequences, causal or not.

    A job is some tokens with the query heads of one key head. The PEs of the cubes that have copies of the same queries
    share their jobs, the largest first to the PE with the least work, so causal rows are spread evenly. Keys and values
    are read from the cube itself, or from the nearest cube that has them.
    """

    kind = "attention"

    def __init__(
        self, name: str, mesh: Mesh, qkv: tuple[Value, Value, Value], heads: Heads, sequences: int, causal: bool
    ) -> None:
        q, k, v = qkv
        if [part.bounds for part in k.parts] != [part.bounds for part in v.parts]:
            raise BenchmarkError(f"attention {name}", "keys in other parts than values", "equal parts")
        self.mesh, self.qkv, self.heads, self.sequences, self.is_causal = mesh, qkv, heads, sequences, causal
        self.tokens = q.shape[0] // sequences
        self.y = Value(name=name, shape=q.shape, dtype=q.dtype, parts=q.parts, axes=q.axes)
        pairs = self.tokens * (self.tokens + 1) // 2 if causal else self.tokens**2
        self.flops = 4 * sequences * heads.heads * heads.head_dim * pairs
        super().__init__(name, qkv, (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        d = self.heads.head_dim
        rows = rows_for(host, ROWS[0], d, self.y.dtype)
        work = self.plan(rows, steps_for(host, rows, self.tokens, d, self.y.dtype))
        q, *caches = (tensors[value] for value in self.qkv)
        host.launch(kernel, q, caches, tensors[self.y], work, d, pes=self.mesh.pes)

    def plan(self, rows: int, step: int) -> list[tuple[Job, ...]]:
        """The jobs of each program, of up to *rows* rows of the array and in steps of up to *step* keys."""
        pes = self.mesh.pes_per_cube
        found: list[tuple[Job, ...]] = [() for _ in self.mesh.pes]
        groups: dict[Bounds, list[int]] = {}
        for part in self.qkv[0].parts:
            groups.setdefault(part.bounds, []).append(part.cube)
        for bounds, cubes in groups.items():
            programs = [cube * pes + place for cube in cubes for place in range(pes)]
            for program, share in zip(programs, self._shares(bounds, len(programs), rows), strict=True):
                place = program // pes, tuple(cubes)
                found[program] = tuple(self._job(each, bounds, place, step) for each in share)
        return found

    def _shares(self, bounds: Bounds, count: int, rows: int) -> list[list[Work]]:
        """The work of each of *count* programs on the queries in *bounds*, with the rows of a job that end first."""
        choices = [choice for choice in ROWS if choice <= rows] or [rows]
        found = [balanced(self._work(bounds, choice), count, self._cost) for choice in choices]
        return min(found, key=lambda shares: max(sum(map(self._cost, share)) for share in shares))

    def _work(self, bounds: Bounds, rows: int) -> Iterator[Work]:
        """The queries in *bounds* in jobs of up to *rows* rows of the array."""
        top, bottom = bounds[0]
        d, group = self.heads.head_dim, self.heads.group
        first, last = (col // d for col in bounds[1])
        for sequence in range(top // self.tokens, -(-bottom // self.tokens)):
            start = max(top - sequence * self.tokens, 0)
            stop = min(bottom - sequence * self.tokens, self.tokens)
            for head in range(*self.heads.of_query(first, last)):
                mine = max(first, head * group), min(last, (head + 1) * group)
                for left in range(*mine, rows):
                    heads = left, min(left + rows, mine[1])
                    tokens = rows // (heads[1] - heads[0])
                    firsts = range(start, stop, tokens)
                    yield from (Work(sequence, at, min(at + tokens, stop), heads) for at in firsts)

    def _cost(self, work: Work) -> int:
        """The cycles of *work*: of the array for two products, of the vector unit for 12 operations on each score, and
        of what a job waits for. Source: the arrays and lanes of the bundled chips; the rest is measured."""
        n_keys, d = self._keys_of(work), self.heads.head_dim
        rows = (work.end - work.first) * (work.heads[1] - work.heads[0])
        products = -(-rows // 64) * (-(-n_keys // 64) * d + -(-d // 64) * n_keys)
        return products + 12 * rows * n_keys // 128 + 1000

    def _keys_of(self, work: Work) -> int:
        return work.end if self.is_causal else self.tokens

    def _job(self, work: Work, bounds: Bounds, place: tuple[int, tuple[int, ...]], step: int) -> Job:
        """The job of *work* on the part in *bounds*, for a program of the cube, and with results in the cubes, of
        *place*."""
        cube, cubes = place
        d, top = self.heads.head_dim, bounds[0][0] - work.sequence * self.tokens
        rows = slice(work.first - top, work.end - top)
        cols = slice(work.heads[0] * d - bounds[1][0], work.heads[1] * d - bounds[1][0])
        steps = list(self._steps(work, cube, step))
        n_rows = (work.end - work.first) * (work.heads[1] - work.heads[0])
        return Job(cube, rows, cols, work.first, tuple(tuple(chunk) for chunk in chunks_of(steps, n_rows)), cubes)

    def _steps(self, work: Work, cube: int, step: int) -> Iterator[Step]:
        """The keys that *work* sees, in steps of up to *step* keys that each lie in one part.

        A step has a multiple of a quarter of *step* keys as far as there are more: few sizes leave few gaps in TCM.
        """
        head, d, quarter = work.heads[0] // self.heads.group, self.heads.head_dim, max(1, step // 4)
        n_keys = min(-(-self._keys_of(work) // quarter) * quarter, self.tokens)
        row = work.sequence * self.tokens
        for block in cover(self.qkv[1].parts, cube, (row, row + n_keys), (head * d, (head + 1) * d)):
            n_rows = block.rows.stop - block.rows.start
            for a in range(0, n_rows, step):
                b = min(a + step, n_rows)
                first = block.rows_of_whole.start + a
                rows = slice(block.rows.start + a, block.rows.start + b)
                whole = slice(first, first + b - a)
                part = Block(block.part, rows, block.cols, whole, block.cols_of_whole)
                yield Step(part, first, self.is_causal and first + b - a > work.first + 1)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition in float64."""
        return {self.y.name: attention(*self._attention(read))}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The rounding of results, probabilities and sums in f32."""
        return {self.y.name: attention_tolerance(*self._attention(read), self.y.dtype)}

    def _attention(self, read: Read) -> tuple[Array, Any, Any, Heads, int, bool]:
        def seen(value: Value) -> Any:
            rows = read(value).reshape(self.sequences, self.tokens, self.heads.kv_heads, self.heads.head_dim)
            return lambda sequence, head: rows[sequence, :, head]

        q, k, v = self.qkv
        return read(q), seen(k), seen(v), self.heads, self.sequences, self.is_causal


def balanced(work: Iterator[Work], count: int, cost: Any) -> list[list[Work]]:
    """*work* for *count* programs: the most costly first, each to the program with the least so far.

    Source: Graham, "Bounds on multiprocessing timing anomalies", 1969.
    """
    shares: list[list[Work]] = [[] for _ in range(count)]
    totals = [(0, number) for number in range(count)]
    for each in sorted(work, key=lambda each: (-cost(each), each)):
        total, number = heappop(totals)
        shares[number].append(each)
        heappush(totals, (total + cost(each), number))
    return shares
