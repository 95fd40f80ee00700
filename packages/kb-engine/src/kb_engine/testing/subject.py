"""Subject: the component under test. Builds the component, and makes the sentences of failed checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.stage_server import Record
from kb_engine.block.transfer_server import server_of
from kb_engine.testing.stub_fabric import StubFabric
from kb_engine.timing.clock import Clock
from kb_messages import DmaParams, DType, GemmParams, KbError, Rectangle, StageParams, StageType, TransferParams

PE = "sip0.cube0.pe0"


class Neighbour(NamedTuple):
    """A block that wires lead to: the kind of its node (`pe_tcm`), its class, its attributes and its memory."""

    role: str
    impl: type[ComponentBase[Any]]
    attributes: Mapping[str, Any] = {}
    memory_nbytes: int = 1 << 20


class Subject:
    """A component class and the arguments for building a component."""

    def __init__(
        self,
        impl: type[ComponentBase[Any]],
        attributes: Mapping[str, Any],
        memory_nbytes: int,
        neighbours: Sequence[Neighbour],
        params: Mapping[StageType, Sequence[StageParams]],
    ) -> None:
        self.impl = impl
        self.attributes = attributes
        self.memory_nbytes = memory_nbytes
        self.neighbours = neighbours
        self._params = {**_DEFAULT_PARAMS, **params}

    def spec(self) -> Any:
        """The block's Spec, made of the attributes."""
        try:
            return msgspec.convert(dict(self.attributes), self.impl.spec_type)
        except msgspec.ValidationError as error:
            self.fail("Spec", f"attributes that it refuses ({error})", "attributes to build the block from")

    def build(
        self, clock: Clock, context_type: type[Context] = Context, record: Record | None = None, pe: str = PE
    ) -> ComponentBase[Any]:
        """A block of *pe* on *clock* with its neighbours, wired and connected in the way of the engine.

        Its servers, and the servers of the neighbours, report to *record*.
        """
        context = context_type(f"{pe}.block", clock, StubFabric(clock), self.memory_nbytes)
        block = self._construct(self.spec(), context)
        others = [self._neighbour(each, clock, context_type, pe) for each in self.neighbours]
        for each, other in zip(self.neighbours, others, strict=True):
            for source in (block, *others):
                if source is not other:
                    source.context.add_neighbour(each.role, other)
        for other in (*others, block):
            other.servers = {stage_type: server_of(other, stage_type, record) for stage_type in other.serves}
        for other in (*others, block):
            self.call("connect", other.connect)
        return block

    def params_for(self, stage_type: StageType) -> Sequence[StageParams]:
        """Parameters to ask the block with."""
        if not self._params.get(stage_type):
            fix = f"pass params={{StageType.{stage_type.name}: [...]}}"
            self.fail("serves", f"{stage_type.name}, for which there are no sample parameters", "some", fix)
        return self._params[stage_type]

    def call(self, where: str, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`. An exception of *function* becomes one sentence."""
        try:
            return function(*args)
        except AssertionError:
            raise
        except Exception as error:  # anyone's code may raise anything
            asked = f"{where}({', '.join(map(repr, args))})"
            got = f"an error ({error})" if isinstance(error, KbError) else repr(error)
            raise AssertionError(self.sentence(asked, got, "an answer")) from error

    def fail(self, where: str, got: str, needs: str, fix: str = "") -> NoReturn:
        """Raises AssertionError with one sentence."""
        raise AssertionError(self.sentence(where, got, needs, fix))

    def sentence(self, where: str, got: str, needs: str, fix: str = "") -> str:
        """`Block.where: got X, needs Y; how to fix`."""
        text = f"{self.impl.__name__}.{where}: got {got}, needs {needs}"
        return f"{text}; {fix}" if fix else text

    def _construct(self, spec: Any, context: Context) -> ComponentBase[Any]:
        impl = self.impl
        missing = sorted(getattr(impl, "__abstractmethods__", ()))
        if missing:
            self.fail("class", f"no {', '.join(missing)}", "every method of its role", "define them")
        block = self.call("__init__", lambda: impl(spec, context))
        if getattr(block, "context", None) is not context or getattr(block, "spec", None) is not spec:
            self.fail("__init__", "no spec or no context kept", "both", "call super().__init__(spec, context)")
        return block  # type: ignore[no-any-return]  # what a class makes is its instance

    def _neighbour(self, each: Neighbour, clock: Clock, context_type: type[Context], pe: str) -> ComponentBase[Any]:
        context = context_type(f"{pe}.{each.role}", clock, StubFabric(clock), each.memory_nbytes)
        return each.impl(msgspec.convert(dict(each.attributes), each.impl.spec_type), context)


def _gemm(m: int, n: int, k: int, accumulate: bool = False) -> GemmParams:
    f16, f32 = DType.F16, DType.F32
    return GemmParams(m=m, n=n, k=k, dtype=f16, dtype_b=f16, dtype_acc=f32, accumulate=accumulate)


def _dma(rows: int) -> DmaParams:
    return DmaParams(memory=Rectangle(0, rows, 32, 64))


_MOVES = [TransferParams(nbytes=nbytes) for nbytes in (1, 512, 4096)]
_DEFAULT_PARAMS: dict[StageType, Sequence[StageParams]] = {
    StageType.DMA_READ: [_dma(1), _dma(16)],
    StageType.FETCH: _MOVES,
    StageType.GEMM: [_gemm(1, 1, 1), _gemm(16, 16, 16), _gemm(40, 24, 72, True)],
    StageType.STORE: _MOVES,
    StageType.DMA_WRITE: [_dma(1), _dma(16)],
}
