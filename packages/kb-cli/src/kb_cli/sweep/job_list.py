"""The jobs of a sweep's points. Points with the same result share a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.values.params import ParamsBuilder, params_code, shown_params
from kb_cli.sweep.axis import TOPOLOGY, SweepAxis
from kb_cli.sweep.chip_keys import check_chips
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.job import Job
from kb_cli.sweep.point_store import PointKeys
from kb_cli.sweep.points import Point
from kb_messages import BenchmarkError
from kb_topology import Topology, YamlSource, load_topology, with_values


class JobList:
    """The jobs of *points* of *loaded*.

    `keys` has the key of each point by its number, and `errors` the sentence for each point whose parameters do not go
    together. `by_key` has the jobs in the order of the points. `chips` are the topologies before any value is changed.

    Raises BenchmarkError for a parameter or a value that the benchmark does not take, TopologyError for a place that a
    chip does not have, and UnknownKeyError or WrongValueError for a key or a value that no chip of the points takes.
    """

    def __init__(
        self, loaded: LoadedBenchmark, definition: Definition, points: Sequence[Point], seed: int, verify: bool
    ) -> None:
        self.keys: dict[int, str] = {}
        self.errors: dict[int, str] = {}
        self.by_key: dict[str, Job] = {}
        self.chips: dict[str, Topology] = {}
        self._numbers: dict[str, int] = {}
        self._axes = [axis for group in definition.groups for axis in group.axes]
        self._texts: dict[tuple[str, ...], str] = {}
        keys = PointKeys(loaded, seed, verify)
        path = loaded.path if bundled.shipped(loaded.label, loaded.source) is None else loaded.path.name
        with params_code(loaded.bench.Params):
            for number, point in enumerate(points):
                texts = {**definition.fixed, **{axis.name: point[axis.name] for axis in self._of("param")}}
                builder = ParamsBuilder(loaded.bench.Params, texts)
                topology = point.get(TOPOLOGY, definition.topology)
                chip = self._chip(topology, point)
                try:
                    shown = shown_params(builder.build({}))
                except BenchmarkError as error:
                    self.errors[number] = str(error)
                    continue
                key = keys.key(chip, shown)
                self.keys[number] = key
                self._numbers.setdefault(key, number)
                if key not in self.by_key:
                    self.by_key[key] = Job(
                        key=key,
                        bench=str(path),
                        source=loaded.source,
                        beside=dict(loaded.beside),
                        topology=self.chips[topology].source.path,
                        chip=chip,
                        params=texts,
                        seed=seed,
                        verify=verify,
                    )
        if self._of("chip"):
            check_chips({setting: (text, self.chips[setting[0]].source.path) for setting, text in self._texts.items()})

    def number_of(self, key: str) -> int:
        """Returns the number of the first point with *key*."""
        return self._numbers[key]

    def _of(self, kind: str) -> list[SweepAxis]:
        return [axis for axis in self._axes if axis.kind == kind]

    def _chip(self, name: str, point: Mapping[str, str]) -> str:
        """Returns the text of the topology file of *point*."""
        axes = self._of("chip")
        setting = (name, *(point[axis.name] for axis in axes))
        if setting not in self._texts:
            if name not in self.chips:
                self.chips[name] = load_topology(bundled.find("topologies", name))
            source: YamlSource = self.chips[name].source
            values = {path: point[axis.name] for axis in axes for path in axis.paths}
            self._texts[setting] = with_values(source, values).text if values else source.text
        return self._texts[setting]
