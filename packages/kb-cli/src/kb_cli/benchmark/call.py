"""A call of a kernel: the kernel, its arguments, its PEs, and the expected results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.benchmark.values.tensor_argument import TensorArgument, tensor
from kb_messages import BenchmarkError, CubeTarget
from kb_topology import did_you_mean

if TYPE_CHECKING:
    from kb_engine import Host

Choice = Callable[["Host"], Mapping[str, Any]]
"""Returns, for the host of a chip, arguments of the kernel and options of `Host.launch` by name."""
Expectation = npt.ArrayLike | Mapping[str, npt.ArrayLike] | Callable[..., Any]
"""Numbers for the only output, numbers by output, or a function of the inputs that returns one of the two."""


class Call(NamedTuple):
    """A kernel and all that it is launched with; or a function of launches, whose first parameter is `host`.

    `arguments` has the kernel's arguments by the names of its parameters; arrays are `TensorArgument`s there. `launch`
    has the options of `Host.launch` that were given. `reference` and `tolerance` are None where the caller states none,
    and `flops` is then 0. `chosen` is the function for the arguments and options that depend on the chip.
    """

    kernel: Callable[..., Any]
    arguments: dict[str, Any]
    launch: dict[str, Any]
    reference: Expectation | None = None
    tolerance: Expectation | None = None
    flops: int = 0
    chosen: Choice | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(getattr(self.kernel, "__name__", type(self.kernel).__name__))

    @property
    def tensors(self) -> dict[str, TensorArgument]:
        """All tensors by name: the parameter's name, followed by `_0`, `_1`, ... for the tensors of a list."""
        return dict(_tensors(self.arguments))

    @property
    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """The content of the tensors before the kernel begins, by name."""
        return {name: each.data for name, each in self.tensors.items() if each.data is not None}

    @property
    def has_launches(self) -> bool:
        """Whether `kernel` is a function of launches."""
        return has_launches(self.kernel)

    def on(self, host: Host) -> Call:
        """Returns the call with the arguments and options that `chosen` returns for the chip of *host*.

        Raises BenchmarkError when these do not fit the kernel's parameters.
        """
        if self.chosen is None:
            return self
        more = dict(self.chosen(host))
        if twice := sorted(more.keys() & (self.arguments.keys() | self.launch.keys())):
            raise BenchmarkError(f"kernel {self.name}", f"{', '.join(twice)} twice, by chosen= too", "each once")
        options: dict[str, Any] = {name: _plain(more.pop(name)) for name in ("pes", "grid") if name in more}
        arguments = dict(_bound(self.kernel, (), {**self.arguments, **{name: _plain(more[name]) for name in more}}))
        return self._replace(arguments=arguments, launch={**self.launch, **options}, chosen=None)


def call(
    kernel: Callable[..., Any],
    *arguments: Any,
    pes: Sequence[int] | str | None = None,
    targets: Sequence[Any] | None = None,
    grid: int | Sequence[int] | None = None,
    schedule: str = "dynamic",
    reference: Expectation | None = None,
    tolerance: Expectation | None = None,
    flops: int = 0,
    chosen: Choice | None = None,
    **named: Any,
) -> Call:
    """Returns the call of *kernel* with *arguments*, in order, and *named* ones by the names of the kernel's
    parameters.

    Arrays are tensors in HBM that the kernel reads; `empty`, `zeros` and `tensor(x, output=True)` are its results.
    Lists and tuples of tensors reach the kernel as lists and tuples of references; everything else unchanged. Keywords
    of a `functools.partial` are arguments, too, unless *named* has others.

    *pes*, *targets*, *grid* and *schedule* are the options of `Host.launch`. *reference* and *tolerance* are expected
    values and allowed absolute errors, and *flops* is the number of operations.

    In place of a kernel stands a function of launches: its first parameter is called `host`, it gets the Host of the
    chip and the placed tensors, and calls `host.launch` as often as it wants. It states *pes* and the other options of
    a launch there.

    *chosen* is for arguments that depend on the chip, such as the sizes of blocks. It takes the Host of the chip before
    the launch, and returns these arguments and the options `grid` and `pes` by name. `Host.fitted` finds such sizes.

    Raises BenchmarkError when the arguments do not fit the kernel's parameters, for a parameter of the kernel that is
    not given in order and has the name of an option, and for options of a launch beside a function of launches.
    """
    refuse_taken_names(kernel, len(arguments), call)
    kernel, named = _without_partial(kernel, named)
    options = {"pes": _plain(pes), "targets": _plain_targets(targets), "grid": _plain(grid)}
    launch = {name: value for name, value in options.items() if value is not None}
    if schedule != "dynamic":
        launch["schedule"] = schedule
    if has_launches(kernel) and (named_options := [*launch, *(["chosen"] if chosen else [])]):
        got = f"{', '.join(f'{name}=' for name in named_options)} beside a function of launches"
        raise BenchmarkError(f"function {kernel.__name__}", got, "none", "state them at its calls of host.launch")
    bound = _bound(kernel, arguments, named, is_whole=chosen is None)
    prepared = {name: _prepared(value) for name, value in bound}
    names = [name for name, _ in _tensors(prepared)]
    variadic = [name for name in prepared if name not in inspect.signature(kernel).parameters] if chosen else []
    if variadic:
        raise BenchmarkError(f"kernel {kernel.__name__}", "a parameter with * beside chosen=", "parameters with names")
    if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
        raise BenchmarkError(f"tensor {twice}", "two tensors of that name", "one", "rename the kernel's parameter")
    return Call(kernel, prepared, launch, reference, tolerance, _plain(flops), chosen)


def has_launches(kernel: Any) -> bool:
    """Whether *kernel* is a function of launches: its first parameter is called `host`."""
    try:
        return next(iter(inspect.signature(kernel).parameters), "") == "host"
    except (TypeError, ValueError):  # no function, or one in C
        return False


def refuse_taken_names(kernel: Any, n_given: int, taker: Callable[..., Any]) -> None:
    """Refuses a parameter of *kernel* behind the first *n_given* arguments that has the name of an option of *taker*.

    An argument of that name would go to the option, and the kernel would get its default. Raises BenchmarkError.
    """
    try:
        parameters = list(inspect.signature(kernel).parameters.values())
    except (TypeError, ValueError):  # no function, or one in C
        return
    of = inspect.signature(taker).parameters.values()
    taken = {each.name for each in of if each.kind is each.KEYWORD_ONLY}
    named = [each.name for each in parameters[n_given + 1 :] if each.kind is each.POSITIONAL_OR_KEYWORD]
    found = next((name for name in named if name in taken), None)
    if found is not None:
        where, fix = f"kernel {getattr(kernel, '__name__', '')}", "give its value in order, or rename it"
        got = f"a parameter {found}, which is the name of an option too"
        raise BenchmarkError(where, got, "a value for it that stands in order", fix)


def _plain(option: Any) -> Any:
    """Returns an option of `Host.launch` as JSON holds it: Python numbers, in a list if there are several."""
    if isinstance(option, Iterable) and not isinstance(option, str):
        return [_plain(each) for each in option]
    return option.item() if isinstance(option, np.generic) else option


def _plain_targets(targets: Any) -> Any:
    """Returns *targets* with Python numbers. Objects that are no CubeTarget stay, and the launch refuses them."""
    if not isinstance(targets, (list, tuple)) or not all(isinstance(each, CubeTarget) for each in targets):
        return targets
    plain = [{name: _plain(getattr(each, name)) for name in each.__struct_fields__} for each in targets]
    return [CubeTarget(**each) for each in plain]


def _without_partial(kernel: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the function of a `functools.partial`, and its keywords among the arguments *named*.

    A partial that sets arguments in order, or by keyword alone, is left as it is, and so is any other kernel.
    """
    if not (isinstance(kernel, partial) and inspect.isfunction(kernel.func)) or kernel.args:
        return kernel, named
    parameters = inspect.signature(kernel.func).parameters
    in_order = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    return (kernel.func, kernel.keywords | named) if set(in_order) >= kernel.keywords.keys() else (kernel, named)


def _bound(
    kernel: Any, arguments: tuple[Any, ...], named: dict[str, Any], is_whole: bool = True
) -> list[tuple[str, Any]]:
    """Returns the arguments in the order of the kernel's parameters, with the parameters' names.

    Parameters by keyword alone are left out: they keep their defaults, or the values of a functools.partial. Unless
    the arguments are the whole, other arguments follow, and no parameter has to be given.
    """
    where = f"kernel {getattr(kernel, '__name__', type(kernel).__name__)}"
    if isinstance(kernel, type) or not callable(kernel):
        got = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"{type(kernel).__name__} {kernel!r:.40}"
        raise BenchmarkError("kernbench.run", got, "a kernel, which is a function, or a benchmark")
    try:
        signature = inspect.signature(kernel)
        _refuse_unknown(where, signature, named)
        bound = (signature.bind if is_whole else signature.bind_partial)(None, *arguments, **named)
    except TypeError as error:
        text = _signature_text(kernel)
        raise BenchmarkError(where, f"arguments that do not fit ({error})", f"the parameters of {text}") from None
    except ValueError:  # a function in C has no signature
        return [(f"argument_{number}", value) for number, value in enumerate(arguments)]
    if bound.kwargs and is_whole:
        got = f"arguments by keyword alone ({', '.join(bound.kwargs)})"
        fix = "remove the * from the signature, or set them by functools.partial(kernel, ...) if they are no tensors"
        raise BenchmarkError(where, got, "parameters that may be given in order", fix)
    if is_whole:
        bound.apply_defaults()
    given = list(bound.arguments.items())[1:]  # the first is the kernel's `tl`
    return [each for name, value in given for each in _each(name, value, signature)]


def _refuse_unknown(where: str, signature: inspect.Signature, named: Iterable[str]) -> None:
    """Refuses a name that no parameter of *signature* behind the first has.

    Python's own error would say that another argument is missing.
    """
    parameters = [*signature.parameters.values()][1:]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        needs = f"one of {', '.join(known)}" if known else "none by name"
        raise BenchmarkError(where, f"an unknown argument {wrong}", needs, did_you_mean(wrong, known))


def _each(name: str, value: Any, signature: inspect.Signature) -> list[tuple[str, Any]]:
    kind = signature.parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return [(f"{name}_{number}", each) for number, each in enumerate(value)]
    keeps_default = kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return [] if keeps_default else [(name, value)]


def _signature_text(kernel: Callable[..., Any]) -> str:
    return f"{getattr(kernel, '__name__', '')}{inspect.signature(kernel)}"


def _prepared(value: Any) -> Any:
    """Returns *value* with tensors in place of arrays."""
    if isinstance(value, TensorArgument) or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        return rebuilt(value, [_prepared(each) for each in value])
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biuf" else value
    return tensor(value) if hasattr(value, "__array__") else value


def rebuilt(like: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """Returns *items* as a list, a tuple or a namedtuple, like *like*."""
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def _tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, TensorArgument]]:
    for name, value in arguments.items():
        if isinstance(value, TensorArgument):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from _tensors({f"{name}_{number}": each for number, each in enumerate(value)})
