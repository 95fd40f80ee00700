"""Autotuner: launches a kernel with the configuration that takes the least simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_messages import KernelError
from kb_triton.host import OutOfResources, TunedConfig, Tuning, current, is_array
from kb_triton.runtime.config import Config
from kb_triton.runtime.heuristics import Wrapper

Arguments = dict[str, Any]


class Pruning(NamedTuple):
    """Which configurations are tried at all, as `prune_configs_by` says.

    `early` makes a shorter list of them. `model` estimates a time, and the `most` of the least ones stay: a number, or
    a share of all.
    """

    early: Callable[..., Sequence[Config]] | None = None
    model: Callable[..., float] | None = None
    most: float = 1.0

    @classmethod
    def of(cls, stated: Mapping[str, Any] | None) -> Pruning:
        """What the dict *stated* says under Triton's names."""
        found = stated or {}
        return cls(found.get("early_config_prune"), found.get("perf_model"), found.get("top_k", 1.0))

    def kept(self, configs: Sequence[Config], known: Arguments, named: Arguments) -> list[Config]:
        """The ones of *configs* to try. *known* are the arguments by position, by their names."""
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

    What is tried runs on copies, so no array changes. After a trial the arrays *reset_to_zero* are zeroed, as on a GPU.
    *pre_hook* and *post_hook* are called around each trial; *restore_value* names arrays that these two may change.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
        hooks: tuple[Callable[..., Any] | None, Callable[..., Any] | None] = (None, None),
        pruning: Pruning = Pruning(),  # noqa: B008 - a NamedTuple
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, float] = {}
        self.best_config: Config | None = None
        self.reset_to_zero = list(reset_to_zero)
        self.restore_value = list(restore_value)
        self.pre_hook, self.post_hook = hooks
        self._pruning = pruning

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launch the kernel with the best configuration, after a trial of all if the key is new."""
        known: Arguments = dict(zip(self.fn.arg_names, arguments, strict=False))
        if named.get("warmup"):
            return self.fn.run(*arguments, **{**named, **self.configs[0].all_kwargs()})
        chosen = self._chosen(arguments, known, named)
        self.best_config = chosen
        if chosen.pre_hook is not None:
            chosen.pre_hook({**known, **named, **chosen.all_kwargs()})
        return self.fn.run(*arguments, **{**named, **chosen.all_kwargs()})

    def _chosen(self, arguments: Sequence[Any], known: Arguments, named: Arguments) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key({**known, **named})
        if key not in self.cache:
            tried = self._pruning.kept(self.configs, known, named)[: current().autotune]
            self.cache[key] = self._best(tried, arguments, known, named, key) if len(tried) > 1 else tried[0]
        return self.cache[key]

    def _key(self, every: Arguments) -> tuple[Any, ...]:
        given = {name: every[name] for name in self.fn.arg_names if name in every}
        values = [given[name] for name in self.keys if name in given]
        return (*values, *(str(each.dtype) for each in given.values() if hasattr(each, "dtype")))

    def _best(
        self, tried: Sequence[Config], arguments: Sequence[Any], known: Arguments, named: Arguments, key: Any
    ) -> Config:
        """The one of *tried* that takes the least time; of equals the first."""
        rows = [TunedConfig(str(each), *self._took(each, arguments, known, named)) for each in tried]
        times = [each.ps for each in rows]
        if all(each is None for each in times):
            raise OutOfResources(f"autotune of {self.fn.__name__}", rows[0].why_not, "a configuration that fits")
        self._zero({**known, **named})
        self.configs_timings = {
            config: float("inf") if ps is None else ps / 1e9 for config, ps in zip(tried, times, strict=True)
        }
        best = min((at for at in range(len(tried)) if times[at] is not None), key=lambda at: times[at] or 0)
        current().tuned(Tuning(self.fn.__name__, dict(zip(self.keys, key, strict=False)), rows, str(tried[best])))
        return tried[best]

    def _took(
        self, config: Config, arguments: Sequence[Any], known: Arguments, named: Arguments
    ) -> tuple[int | None, str]:
        """Picoseconds of a launch with *config*, or None and why there are none."""
        clash = sorted(named.keys() & config.kwargs.keys())
        if clash:
            fix = "leave them out of the launch, because the configurations set them"
            raise KernelError(f"launch of {self.fn.__name__}", f"the arguments {', '.join(clash)} twice", "once", fix)
        full = {**known, **named, **config.all_kwargs()}
        kept = [(full[name], full[name].copy() if isinstance(full[name], np.ndarray) else full[name].clone())
                for name in self.restore_value]  # fmt: skip
        if config.pre_hook is not None:
            config.pre_hook(full)
        if self.pre_hook is not None:
            self.pre_hook(full)
        why = ""
        with current().timing() as times:
            try:
                self.fn.run(*arguments, **{**named, **config.all_kwargs()})
            except OutOfResources as error:
                why = str(error)
        if self.post_hook is not None:
            self.post_hook(full, exception=None)
        for array, value in kept:
            array[...] = value
        return (None, why) if why else (sum(times), "")

    def _zero(self, every: Arguments) -> None:
        for name in self.reset_to_zero:
            if is_array(every[name]):
                every[name][...] = 0


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
    """A decorator for kernels: a launch takes the one of *configs* with the least simulated time.

    The best one is remembered for each combination of the arguments *key*. How a GPU would measure (`warmup`, `rep`,
    `use_cuda_graph`, `do_bench`, `cache_results`) makes no difference here.
    """
    pruning = Pruning.of(prune_configs_by)
    hooks = pre_hook, post_hook
    return lambda fn: Autotuner(fn, configs, key, reset_to_zero or (), restore_value or (), hooks, pruning)
