"""Benchmarks that are made of calls: a single call, or a function that returns a call for its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints, overload

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.call import Call, Expectation, rebuilt
from kb_cli.benchmark.run_records import shown_arguments
from kb_cli.benchmark.values.tensor_argument import TensorArgument
from kb_engine import Arrays, Benchmark, Host, Tensor
from kb_messages import BenchmarkError

Footprint = Callable[[Any], int]
"""Returns the least bytes that the tensors of a benchmark need, for its parameters."""


class CallBenchmark(Benchmark[Any]):
    """The benchmark of one call. Its parameters are the arguments as a report shows them.

    With *spreads*, tensors without a place lie over all HBM slices, also on a chip that does not interleave them.
    """

    def __init__(self, call: Call, spreads: bool = False) -> None:
        shown = shown_arguments(call)
        self.Params = msgspec.defstruct("Arguments", [(name, Any) for name in shown], kw_only=True)  # type: ignore[misc]
        self.arguments = self.Params(**shown)
        self.name = call.name  # type: ignore[misc]
        self.call = call
        self._spreads = spreads

    def inputs(self, p: Any, rng: np.random.Generator) -> Arrays:
        """Returns the content of the tensors of the call before the kernel begins. Draws nothing from *rng*."""
        return self.call.inputs

    def launch(self, host: Host, p: Any, tensors: Arrays) -> dict[str, Tensor]:
        """Places the tensors, launches the kernel, and returns the output tensors by name.

        A function of launches is called in place of a launch. Raises BenchmarkError when it returns something.
        """
        placed = {name: each.put(host, name, self._spreads) for name, each in self.call.tensors.items()}
        call = self.call.on(host)
        arguments = [_with_tensors(value, name, placed) for name, value in call.arguments.items()]
        if not call.has_launches:
            host.launch(call.kernel, *arguments, **call.launch)
        elif (returned := call.kernel(host, *arguments)) is not None:
            fix = "write results to arguments that are kernbench.empty(shape, dtype)"
            raise BenchmarkError(f"function {call.name}", f"{type(returned).__name__} returned", "nothing", fix)
        return {name: placed[name] for name, each in self.call.tensors.items() if each.is_output}

    def reference(self, p: Any, inputs: Arrays) -> Arrays:
        """Returns the expected outputs that the call states."""
        return self._by_output("reference", self.call.reference, inputs)

    def tolerance(self, p: Any, inputs: Arrays, expected: Arrays) -> Arrays:
        """Returns the allowed errors that the call states; {}, which means the default, if it states none."""
        return {} if self.call.tolerance is None else self._by_output("tolerance", self.call.tolerance, inputs)

    def flops(self, p: Any) -> int:
        """Returns the operations that the call states."""
        return self.call.flops

    def _by_output(self, what: str, stated: Expectation | None, inputs: Arrays) -> Arrays:
        """Returns the expectation *stated* by output. A function gets the inputs in the order of the kernel, floats
        as float64.
        """
        if callable(stated):
            stated = stated(*(_wide(array) for array in inputs.values()))
        if isinstance(stated, Mapping):
            return dict(stated)  # type: ignore[arg-type]  # whoever calls this makes arrays of them
        outputs = [name for name, each in self.call.tensors.items() if each.is_output]
        if len(outputs) != 1:
            raise BenchmarkError(
                f"the {what} of {self.call.name}", "one array", f"a dict of arrays by output, of {outputs}"
            )
        return {outputs[0]: stated}  # type: ignore[dict-item]  # here too


class FunctionBenchmark:
    """A function that returns a call for a random generator and parameters, as a benchmark that `kb run` takes.

    It can be called like the function that it wraps.
    """

    def __init__(self, function: Callable[..., Call], name: str = "", footprint: Footprint | None = None) -> None:
        self.function = function
        self.footprint = footprint
        self.name = name or getattr(function, "__name__", "benchmark")
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Call:
        """Calls the function."""
        return self.function(*arguments, **named)

    def new(self) -> FunctionCalls:
        """Returns the benchmark. Raises BenchmarkError for a function whose parameters cannot be set by name and
        type.
        """
        return FunctionCalls(self.function, self.name, self.footprint)


@overload
def benchmark(function: Callable[..., Call]) -> FunctionBenchmark: ...


@overload
def benchmark(*, footprint: Footprint) -> Callable[[Callable[..., Call]], FunctionBenchmark]: ...


def benchmark(
    function: Callable[..., Call] | None = None, *, footprint: Footprint | None = None
) -> FunctionBenchmark | Callable[[Callable[..., Call]], FunctionBenchmark]:
    """Makes *function* the benchmark of its file, so that `kb run FILE` runs it.

    *function* takes a numpy random generator and then its parameters, each with a type and a default, which `-p` sets.
    It returns `kernbench.call(...)`, with a reference. *footprint* takes the parameters as one object, and returns the
    least bytes that the tensors need: `@kernbench.benchmark(footprint=lambda p: 4 * p.M * p.N)`. `kb run` calls it
    before *function*, and refuses sizes that no memory could hold.
    """
    if function is None:
        return lambda found: FunctionBenchmark(found, footprint=footprint)
    return FunctionBenchmark(function)


class FunctionCalls(Benchmark[Any]):
    """The benchmark of a function that returns a call. A run makes its inputs first, and that makes the call."""

    def __init__(self, function: Callable[..., Call], name: str, footprint: Footprint | None = None) -> None:
        self.Params = _params_of(function)  # type: ignore[misc]
        self.name = name  # type: ignore[misc]
        self.__doc__ = function.__doc__
        self._function = function
        self._footprint = footprint
        self._made: CallBenchmark | None = None

    def footprint(self, p: Any) -> int:
        """Returns the author's footprint; 0, which refuses nothing, for a function without one."""
        return 0 if self._footprint is None else self._footprint(p)

    def inputs(self, p: Any, rng: np.random.Generator) -> Arrays:
        """Calls the function, and returns the content of the tensors of its call."""
        answer: object = self._function(rng, **{each: getattr(p, each) for each in p.__struct_fields__})
        if not isinstance(answer, Call):
            got = f"{self.name} that answers a {type(answer).__name__}"
            raise BenchmarkError(self.name, got, "kernbench.call(kernel, ...)", "end with `return kernbench.call(...)`")
        if answer.reference is None:
            raise BenchmarkError(self.name, "a call without a reference", "reference=...", "state the expected result")
        self._made = CallBenchmark(answer, spreads=True)
        return self._made.inputs(p, rng)

    def launch(self, host: Host, p: Any, tensors: Arrays) -> dict[str, Tensor]:
        """Places the tensors of the call, launches its kernel, and returns the output tensors by name."""
        return self._call.launch(host, p, tensors)

    def reference(self, p: Any, inputs: Arrays) -> Arrays:
        """Returns the expected outputs that the call states."""
        return self._call.reference(p, inputs)

    def tolerance(self, p: Any, inputs: Arrays, expected: Arrays) -> Arrays:
        """Returns the allowed errors that the call states."""
        return self._call.tolerance(p, inputs, expected)

    def flops(self, p: Any) -> int:
        """Returns the operations that the call states."""
        return self._call.flops(p)

    @property
    def _call(self) -> CallBenchmark:
        if self._made is None:
            raise BenchmarkError(self.name, "a use before inputs()", "inputs() first")
        return self._made


def _params_of(function: Callable[..., Call]) -> type[Struct]:
    """Returns the parameters of *function* after the first, as a struct. Raises BenchmarkError where one has no
    type.
    """
    name = getattr(function, "__name__", "benchmark")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise BenchmarkError(name, "a benchmark without parameters", "a random generator as the first", f"{name}(rng)")
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for each in parameters[1:]:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise BenchmarkError(f"{name}: {each.name}", f"the parameter {each}", "one that is given by its name")
        if each.name not in hints:
            raise BenchmarkError(f"{name}: {each.name}", "a parameter without a type", "a type", f"{each.name}: int")
        required = each.default is each.empty
        fields.append((each.name, hints[each.name]) if required else (each.name, hints[each.name], each.default))
    return msgspec.defstruct("Parameters", fields, kw_only=True, module=function.__module__)


def _with_tensors(value: Any, name: str, placed: Mapping[str, Tensor]) -> Any:
    """Returns *value*, an argument of a call, with placed tensors for its tensor arguments."""
    if isinstance(value, TensorArgument):
        return placed[name]
    if isinstance(value, (list, tuple)):
        return rebuilt(value, [_with_tensors(each, f"{name}_{number}", placed) for number, each in enumerate(value)])
    return value


def _wide(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array if array.dtype.kind in "biu" else array.astype(np.float64)
