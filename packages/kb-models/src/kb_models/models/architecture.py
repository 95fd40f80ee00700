"""Architecture: the models of one `model_type`. It reads the sizes of a configuration, and adds the ops of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from kb_engine import WorkloadStep
from kb_models.layout import Layout, cut
from kb_models.models.builder import Builder
from kb_models.models.config import ConfigKeys
from kb_models.models.params import ModelParams, Phase, Weights


class Architecture(ABC):
    """A model of one configuration. A subclass reads the keys of a `config.json` when the model is made.

    `phases` are the phases of the model, the first one by default. `layers` is the number of equal blocks, of which a
    run simulates `ModelParams.layers`; 1 for a model that is always simulated whole. `positions` is the most tokens of
    a sequence, None for any number. `forms` are the forms of weights in memory that its ops take. With `splits_tokens`,
    cubes share the rows between products of a prefill, where the user gives no layout.
    """

    phases: ClassVar[tuple[Phase, ...]] = ("decode", "prefill")
    layers: int = 1
    positions: int | None = None
    forms: ClassVar[tuple[Weights, ...]] = ("same", "int8", "int4", "fp8")
    splits_tokens: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, keys: ConfigKeys) -> None:
        """Reads the sizes. Raises BenchmarkError for a key that is missing or has a wrong value."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """The number of parameters of the whole model, a matrix that is used twice once."""

    @property
    @abstractmethod
    def axes(self) -> Mapping[str, int]:
        """The lengths of the axes that a layout may split, `batch` and `tokens` apart."""

    @property
    def defaults(self) -> dict[str, object]:
        """The parameters whose defaults differ from the defaults of `ModelParams`."""
        plain, most = ModelParams(), self.positions
        found: dict[str, object] = {} if plain.phase in self.phases else {"phase": self.phases[0]}
        if most is not None:
            found |= {name: most for name in ("tokens", "context") if getattr(plain, name) > most}
        return found

    @abstractmethod
    def build(self, m: Builder, p: ModelParams) -> None:
        """Adds the ops of a run to *m*: ops before the blocks, the ops of `p.layers` blocks, and ops after them."""

    def layouts(self, p: ModelParams, n_sips: int, n_cubes: int) -> Iterator[Layout]:
        """The layouts that the model takes where the user gives none, the best one first; none here, which stands for
        the layouts of most models.
        """
        return iter(())

    def step(self, p: ModelParams) -> WorkloadStep:
        """The work of the whole model: in `decode` one token of each sequence, in `prefill` all tokens of the prompts.

        A model that makes no tokens says what its pass is for.
        """
        if p.phase == "prefill":
            return WorkloadStep(phase="prefill", items=p.batch * p.tokens)
        return WorkloadStep(phase="decode", items=p.batch)

    def simulated(self, p: ModelParams) -> Iterator[tuple[int, int]]:
        """The number of each block that is simulated, and of how many blocks of the model it stands for."""
        for number in range(p.layers):
            start, stop = cut(self.layers, p.layers, number)
            yield number, stop - start
