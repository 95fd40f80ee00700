"""OpsWorkload: ops in their order as a workload that kb runs, verifies op by op, and reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from kb_dataexec import MemoryStore
from kb_engine import Host, OutputPart, PlannedOp, PlannedValue, Workload, WorkloadOp, WorkloadOutput, WorkloadStep
from kb_messages import DType
from kb_models.alone import alone, layout_text, stand_ins
from kb_models.default_map import default_map
from kb_models.fit import Held, check_fit, fullest_slice
from kb_models.launching import OneStream
from kb_models.layout import Layout, Mesh, Tensors, Value, parse_map
from kb_models.layout.value import Array
from kb_models.models.architecture import Architecture
from kb_models.models.builder import Builder
from kb_models.models.checks import check_params
from kb_models.models.params import ModelParams
from kb_models.models.registry import architecture_of
from kb_models.ops import Op
from kb_topology import Topology


class _OpCheck:
    """What an op read and should have written, in the memory after the run: each value once for all of its outputs."""

    def __init__(self, op: Op, tensors: Tensors) -> None:
        self._op, self._tensors = op, tensors
        self._memory: MemoryStore | None = None
        self._read: dict[str, Array] = {}
        self._expected: tuple[dict[str, Array], dict[str, Array]] | None = None

    def expected(self, memory: MemoryStore) -> tuple[dict[str, Array], dict[str, Array]]:
        """The references and the allowed errors of all outputs, by name."""
        self._look_at(memory)
        if self._expected is None:
            reference = self._op.reference(self._value)
            self._expected = reference, self._op.tolerance(self._value, reference)
        return self._expected

    def factors(self, memory: MemoryStore) -> tuple[Array, Array] | None:
        """The factors of an op that is a product."""
        self._look_at(memory)
        return self._op.factors(self._value)

    def _look_at(self, memory: MemoryStore) -> None:
        if memory is not self._memory:
            self._memory, self._read, self._expected = memory, {}, None

    def _value(self, value: Value) -> Array:
        assert self._memory is not None, "a memory comes first"
        if value.name not in self._read:
            self._read[value.name] = self._tensors.read(self._memory, value)
        return self._read[value.name]


class OpOutput(WorkloadOutput):
    """A value that an op wrote."""

    def __init__(self, op: Op, value: Value, tensors: Tensors, check: _OpCheck) -> None:
        self.name, self.shape, self.dtype, self.flops = value.name, value.shape, value.dtype, op.flops
        self._value, self._tensors, self._check = value, tensors, check

    def read(self, memory: MemoryStore) -> Array:
        """The whole value; all copies are compared."""
        return self._tensors.read(memory, self._value)

    def byte_of(self, index: tuple[int, ...]) -> tuple[int, int]:
        """The first byte of an element in the first part that has it."""
        return self._tensors.byte_of(self._value, index)

    @property
    def parts(self) -> list[OutputPart]:
        """The parts of the value with their tensors."""
        found = zip(self._value.parts, self._tensors[self._value], strict=True)
        return [OutputPart(part.bounds, tensor) for part, tensor in found]

    def expected(self, memory: MemoryStore) -> tuple[Array, Array]:
        """The op's reference and tolerance on what it read."""
        references, allowed = self._check.expected(memory)
        return references[self.name], allowed[self.name]

    def factors(self, memory: MemoryStore) -> tuple[Array, Array] | None:
        """The factors of an op that is a product."""
        return self._check.factors(memory)


class OpsWorkload(Workload[Any]):
    """A workload of `Op`s, which a subclass makes for its parameters and a chip."""

    def __init__(self) -> None:
        self._seed = 0
        self._mesh: Mesh | None = None
        self._made: list[Op] = []
        self._ran: list[WorkloadOp] = []
        self._tensors: Tensors | None = None

    @abstractmethod
    def made(self, p: Any, topology: Topology) -> tuple[Mesh, list[Op]]:
        """The mesh and the ops for parameters *p* on *topology*."""

    def prepare(self, p: Any, topology: Topology, seed: int) -> None:
        """Makes the ops, and checks that they fit."""
        self._seed = seed
        self._mesh, every = self.made(p, topology)
        only = getattr(p, "op", None)
        self._made = alone(every, only, self.name or "workload") if only else every

    def run(self, host: Host, p: Any) -> None:
        """Places all values, then launches op after op."""
        assert self._mesh is not None, "prepare comes first"
        needs_data = host.needs_data or any(op.looks_at_values for op in self._made)
        tensors = self._tensors = Tensors(host, self._mesh, self._seed, needs_data, stand_ins(self._made))
        for op in self._made:
            for value in (*op.reads, *op.writes, *op.scratch):
                tensors.put(value)
        self._ran = []
        stream = OneStream(host)
        for op in self._made:
            first = stream.n_launches
            op.launch(stream.as_host, tensors)
            ran = WorkloadOp(
                name=op.name,
                kind=op.kind,
                flops=op.flops,
                nbytes=op.nbytes,
                first_launch=first,
                end_launch=stream.n_launches,
                repeats=op.repeats,
                floor_nbytes=op.floor_nbytes,
            )
            self._ran.append(ran)
        host.synchronize()

    @property
    def planned(self) -> list[PlannedOp]:
        """The ops that will run."""
        return [
            PlannedOp(
                name=op.name,
                kind=op.kind,
                flops=op.flops,
                nbytes=op.nbytes,
                repeats=op.repeats,
                reads=tuple(map(_planned, op.reads)),
                writes=tuple(map(_planned, op.writes)),
            )
            for op in self._made
        ]

    @property
    def ops(self) -> list[WorkloadOp]:
        """The ops that ran."""
        return self._ran

    def outputs(self) -> Iterator[WorkloadOutput]:
        """The values that the ops wrote."""
        assert self._tensors is not None, "run comes first"
        for op in self._made:
            check = _OpCheck(op, self._tensors)
            for value in op.writes:
                yield OpOutput(op, value, self._tensors, check)

    def flops(self, p: Any) -> int:
        """The operations of all ops."""
        return sum(op.flops for op in self._made)

    def footprint(self, p: Any) -> int:
        """The bytes of all values in this machine. Equal parts of weights share an array; `check_fit` counts each."""
        values = {value.name: value for op in self._made for value in (*op.reads, *op.writes, *op.scratch)}
        return sum(value.held_nbytes for value in values.values())


def _planned(value: Value) -> PlannedValue:
    return PlannedValue(name=value.name, shape=value.shape, dtype=value.dtype, layout=layout_text(value))


class ModelWorkload(OpsWorkload):
    """A model of a Hugging Face configuration."""

    Params = ModelParams
    default_topology = "one_sip"
    config: ClassVar[dict[str, Any]] = {}
    _chosen = ""

    def step(self, p: ModelParams) -> WorkloadStep | None:
        """The work of the whole model; None for a run of one op."""
        return None if p.op else architecture_of(self.config, self.name).step(p)

    def made(self, p: ModelParams, topology: Topology) -> tuple[Mesh, list[Op]]:
        """The ops of the model. Raises BenchmarkError for parameters that the model does not take, for a layout that
        the model or the chip does not have, and for a model that does not fit the chip.
        """
        model = architecture_of(self.config, self.name)
        check_params(model, p, self.name)

        @cache
        def built(text: str) -> tuple[Mesh, list[Op], Held]:
            m = self._built(model, p, topology, parse_map(text))
            return m.mesh, m.ops, fullest_slice(m.ops, m.mesh, topology, m.kept)

        self._chosen = ""
        if p.map == "auto":
            chip = Mesh.of(topology, {})
            self._chosen = default_map(model, p, chip.n_sips, chip.n_cubes, lambda text: built(text)[2])
        mesh, ops, held = built(self._chosen or p.map)
        if p.op is None:  # one op alone needs no room for the model
            smaller = [form for form in model.forms if p.weights == "same" and form != "same"]
            check_fit(self.name, held, mesh, smaller, p.batch)
        return mesh, ops

    def run(self, host: Host, p: ModelParams) -> None:
        """Says which layout was chosen, and runs the ops."""
        if self._chosen:
            host.chose(map=self._chosen)
        super().run(host, p)

    def _built(self, model: Architecture, p: ModelParams, topology: Topology, layout: Layout) -> Builder:
        mesh = Mesh.of(topology, layout)
        mesh.check({"batch": p.batch, "tokens": p.rows if p.phase == "prefill" else 1, **model.axes})
        m = Builder(mesh, DType(p.dtype))
        model.build(m, p)
        return m
