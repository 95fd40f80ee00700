"""Autotuner: a kernel whose launch takes the fastest of some configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_messages import KernelError
from kb_triton.host import OutOfResources, Trials, TunedConfig, Tuning, current, is_array
from kb_triton.jit import UnknownArgumentError
from kb_triton.language.compile_errors import CompileTimeAssertionFailure
from kb_triton.runtime.heuristics import Wrapper


class Config:
    """A configuration of a tuned kernel: values of its constants by name.

    The options of a GPU do nothing here. `num_stages` is one of them, since the free TCM decides how many loads run
    ahead. *pre_hook* is called with all arguments by name before each launch with this configuration.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """Returns the constants and the options of a launch with this configuration, by name."""
        options = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg")}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and str(self) == str(other) and self.pre_hook is other.pre_hook


Arguments = dict[str, Any]
Skipped: TypeAlias = "OutOfResources | CompileTimeAssertionFailure"
"""The errors for which a configuration is skipped, as in Triton."""


class Pruning(NamedTuple):
    """The rule of `prune_configs_by`, which chooses the configurations to try.

    `early` returns a shorter list of configurations. `model` estimates the time of one, and the `most` fastest ones
    stay: a number of configurations, or a share of all as a float.
    """

    early: Callable[..., Sequence[Config]] | None = None
    model: Callable[..., float] | None = None
    most: float = 1.0

    @classmethod
    def of(cls, stated: Mapping[str, Any] | None) -> Pruning:
        """Returns the rule of the dict *stated*, which has Triton's names."""
        found = stated or {}
        return cls(found.get("early_config_prune"), found.get("perf_model"), found.get("top_k", 1.0))

    def kept(self, configs: Sequence[Config], known: Arguments, named: Arguments) -> list[Config]:
        """Returns the configurations of *configs* to try. *known* has the positional arguments by name.

        Raises KernelError where `early` returns no configuration.
        """
        found = list(configs)
        if self.early is not None:
            found = list(self.early(found, known, **named))
            if len(found) == 0:
                raise KernelError("autotune", "no configuration that early_config_prune keeps", "at least one")
        most = int(len(configs) * self.most) if type(self.most) is float else int(self.most)
        if self.model is None or len(found) <= most:
            return found
        estimates = [self.model(**{**known, **named, **each.all_kwargs()}) for each in found]
        return [found[at] for at in np.argsort(estimates, kind="stable")[: max(1, most)]]


class Autotuner(Wrapper):
    """A kernel with several *configs*, tried once for each combination of the arguments *key* and of the arrays' types.

    A trial is only timed, so it changes no array. Configurations that launch the same, such as those that differ in
    `num_warps` and `num_stages` alone, are simulated once. After the trials, the arrays *reset_to_zero* are zeroed, as
    on a GPU. *pre_hook* and *post_hook* are called around each trial, and then each trial is simulated; *restore_value*
    names arrays that these two may change.

    The parameters and attributes are Triton's, and so are the methods that libraries override or call. The parameters
    of a GPU's measurement (`warmup`, `rep`, `use_cuda_graph`, `do_bench`, `cache_results`) make no difference here.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: Any = None,
        rep: Any = None,
        use_cuda_graph: bool = False,
        do_bench: Any = None,
        cache_results: bool = False,
    ) -> None:
        super().__init__(fn)
        self.arg_names = list(arg_names)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, Any] = {}
        self.best_config: Config | None = None
        self.nargs: Arguments = {}
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook, post_hook
        self._kept: list[tuple[Any, Any]] = []
        self._pruning = Pruning.of(prune_configs_by)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launches the kernel with the best configuration, after trying the configurations if the key is new.

        Raises OutOfResources where no configuration fits the TCM, CompileTimeAssertionFailure where none is left and a
        `tl.static_assert` did not hold, and the errors of `JITFunction.run`.
        """
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        if named.get("warmup"):
            return self.fn.run(*arguments, **{**named, **self.configs[0].all_kwargs()})
        chosen = self._chosen(arguments, named)
        self.best_config = chosen
        if chosen.pre_hook is not None:
            chosen.pre_hook({**self.nargs, **named, **chosen.all_kwargs()})
        return self._run(chosen, arguments, named)

    def prune_configs(self, named: Arguments) -> list[Config]:
        """Returns the configurations to try: `prune_configs_by` chooses them, and the device limits their number."""
        return self._pruning.kept(self.configs, self.nargs, named)[: current().autotune]

    def pre_hook(self, every: Arguments, reset_only: bool = False) -> None:
        """Runs before a trial with the arguments *every*. With *reset_only*, runs after all trials and only zeroes."""
        if reset_only:
            self._zero(every)
            return
        self._kept = [(every[name], _copied(every[name])) for name in self.restore_value]
        if self.user_defined_pre_hook is not None:
            self.user_defined_pre_hook(every)

    def post_hook(self, every: Arguments, exception: BaseException | None) -> None:
        """Runs after a trial. *exception* is the error that ended the trial, or None."""
        if self.user_defined_post_hook is not None:
            self.user_defined_post_hook(every, exception=exception)
        for array, value in self._kept:
            array[...] = value
        self._kept = []

    def _bench(self, *arguments: Any, config: Config, **named: Any) -> list[float]:
        """Returns the simulated milliseconds of a launch with *config* three times: as median, 20 % and 80 % quantile.

        Returns infinity where the TCM is full, and where a `tl.static_assert` does not hold.
        """
        took_ps, _ = _row_of(self._took(config, arguments, named))
        return [float("inf") if took_ps is None else took_ps / 1e9] * 3

    def _chosen(self, arguments: Sequence[Any], named: Arguments) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key({**self.nargs, **named})
        if key not in self.cache:
            tried = self.prune_configs(named)
            self.cache[key] = self._best(tried, arguments, named, key) if len(tried) > 1 else tried[0]
        return self.cache[key]

    def _key(self, every: Arguments) -> tuple[Any, ...]:
        given = {name: every[name] for name in self.arg_names if name in every}
        values = [given[name] for name in self.keys if name in given]
        return (*values, *(str(each.dtype) for each in given.values() if hasattr(each, "dtype")))

    def _best(self, tried: Sequence[Config], arguments: Sequence[Any], named: Arguments, key: Any) -> Config:
        """Returns the fastest configuration of *tried*; of equally fast ones the first.

        Configurations whose launches are equal are simulated once.
        """
        trials = None if self._has_hooks(tried) else Trials()
        firsts: dict[tuple[int, ...], Config] = {}
        found, rows, same = [], [], []
        for config in tried:
            found.append(self._took(config, arguments, named, trials))
            numbers = trials.taken() if trials is not None else ()
            same.append(firsts.setdefault(numbers, config) if numbers else config)
            rows.append(TunedConfig(str(config), *_row_of(found[-1]), "" if same[-1] is config else str(same[-1])))
        times = [each.ps for each in rows]
        if all(each is None for each in times):
            for each in found:
                if isinstance(each, CompileTimeAssertionFailure):
                    raise each
            raise OutOfResources(f"autotune of {self.fn.__name__}", rows[0].why_not, "a configuration that fits")
        self.pre_hook({**self.nargs, **named}, reset_only=True)
        self.configs_timings = {
            config: float("inf") if ps is None else ps / 1e9 for config, ps in zip(tried, times, strict=True)
        }
        best = min((at for at in range(len(tried)) if times[at] is not None), key=lambda at: times[at] or 0)
        known = dict(zip(self.keys, key, strict=False))
        current().tuned(Tuning(self.fn.__name__, known, rows, str(tried[best]), _idle(tried, same)))
        return tried[best]

    def _has_hooks(self, tried: Sequence[Config]) -> bool:
        """Whether code of the author runs around trials. It may change the arrays, and with them the time of a launch.

        A library may override the methods that call the hooks.
        """
        hooks = (self.user_defined_pre_hook, self.user_defined_post_hook, *(each.pre_hook for each in tried))
        methods = (type(self).pre_hook, type(self).post_hook) != (Autotuner.pre_hook, Autotuner.post_hook)
        return methods or any(each is not None for each in hooks) or bool(getattr(self.fn, "pre_run_hooks", ()))

    def _took(
        self, config: Config, arguments: Sequence[Any], named: Arguments, trials: Trials | None = None
    ) -> int | Skipped:
        """Returns the picoseconds of a launch with *config*, or the error for which Triton skips a configuration.

        A launch that equals one of *trials* is not simulated again.
        """
        clash = sorted(named.keys() & config.kwargs.keys())
        if clash:
            fix = "leave them out of the launch, because the configurations set them"
            raise KernelError(f"launch of {self.fn.__name__}", f"the arguments {', '.join(clash)} twice", "once", fix)
        full = {**self.nargs, **named, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(full)
        self.pre_hook(full)
        failed: Skipped | None = None
        with current().timing(trials) as times:
            try:
                self._run(config, arguments, named)
            except (OutOfResources, CompileTimeAssertionFailure) as error:
                failed = error
        self.post_hook(full, exception=failed)
        return sum(times) if failed is None else failed

    def _run(self, config: Config, arguments: Sequence[Any], named: Arguments) -> Any:
        """Launches the kernel with *config*. An error about an argument of *config* names the configuration."""
        try:
            return self.fn.run(*arguments, **{**named, **config.all_kwargs()})
        except UnknownArgumentError as error:
            if not config.kwargs.keys().isdisjoint(error.names):
                error.got = f"{error.got} of {config!r}"
            raise

    def _zero(self, every: Arguments) -> None:
        for name in self.reset_to_zero:
            if is_array(every[name]):
                every[name][...] = 0


def _row_of(found: int | Skipped) -> tuple[int | None, str]:
    """Returns the picoseconds of a trial and ""; None and the reason in one line for a trial that was skipped."""
    if isinstance(found, int):
        return found, ""
    return None, found.sentence if isinstance(found, CompileTimeAssertionFailure) else str(found)


def _idle(tried: Sequence[Config], same: Sequence[Config]) -> tuple[str, ...]:
    """Returns the names of the options and constants of *tried* that change nothing. *same* has, for each
    configuration, the first one with an equal launch.

    No name is returned where two configurations with unequal launches differ in the names found alone.
    """
    values = [{**each.all_kwargs()} for each in tried]
    firsts = [values[next(at for at, each in enumerate(tried) if each is first)] for first in same]
    idle = {name for one, first in zip(values, firsts, strict=True) for name in one if one[name] != first.get(name)}
    rests = [{name: value for name, value in one.items() if name not in idle} for one in values]
    for one, rest in zip(same, rests, strict=True):
        if any(each is not one for each, other in zip(same, rests, strict=True) if other == rest):
            return ()
    return tuple(name for name in values[0] if name in idle)


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    **ignored: Any,
) -> Callable[[Any], Autotuner]:
    """Decorates a kernel: a launch takes the configuration of *configs* with the least simulated time.

    The choice is cached for each combination of the arguments *key*. `Autotuner` describes the other parameters.
    """
    return lambda fn: Autotuner(
        fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by
    )
