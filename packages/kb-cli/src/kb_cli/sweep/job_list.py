"""The jobs of a sweep's points. Points with the same result share a job.

A swept key or value that no chip takes is a mistake, and is reported before any point runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.values.params import ParamsBuilder, params_code, shown_params
from kb_cli.sweep.axis import TOPOLOGY, SweepAxis
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.expression import number_of
from kb_cli.sweep.job import Job
from kb_cli.sweep.mix import BENCHMARK, SweptBenchmark
from kb_cli.sweep.point_store import PointKeys
from kb_cli.sweep.points import Point
from kb_engine.engine import Registry
from kb_messages import BenchmarkError, KbError
from kb_topology import (
    Topology,
    UnknownKeyError,
    WrongValueError,
    YamlSource,
    load_topology,
    loads_topology,
    read_yaml,
    with_values,
)

Setting = tuple[str, ...]
"""The name of a topology, and the texts of the values that a point changes in it."""
_Chip = tuple[str, str]
"""The text and the path of a topology file."""


class JobList:
    """The jobs of *points* of *loaded*, the benchmarks of the definition by label.

    `keys` has the key of each point by its number, and `errors` the sentence for each point whose parameters do not go
    together. `by_key` has the jobs in the order of the points. `chips` are the topologies before any value is changed.

    Raises BenchmarkError for a parameter or a value that the benchmark does not take, TopologyError for a place that a
    chip does not have, and UnknownKeyError or WrongValueError for a key or a value that no chip of the points takes.
    """

    def __init__(
        self,
        loaded: Mapping[str, LoadedBenchmark],
        definition: Definition,
        points: Sequence[Point],
        seed: int,
        verify: bool,
    ) -> None:
        self.keys: dict[int, str] = {}
        self.errors: dict[int, str] = {}
        self.by_key: dict[str, Job] = {}
        self.chips: dict[str, Topology] = {}
        self._numbers: dict[str, int] = {}
        self._axes = [axis for group in definition.groups for axis in group.axes]
        self._texts: dict[tuple[str, ...], str] = {}
        self._default, self._checked = definition.topology, (seed, verify)
        for each in definition.mix:
            mine = (number for number, point in enumerate(points) if point.get(BENCHMARK, each.label) == each.label)
            self._add(loaded[each.label], each, ((number, points[number]) for number in mine))
        if self._of("chip"):
            check_chips({setting: (text, self.chips[setting[0]].source.path) for setting, text in self._texts.items()})

    def _add(self, loaded: LoadedBenchmark, swept: SweptBenchmark, points: Iterable[tuple[int, Point]]) -> None:
        """Adds the jobs of *points*, with their numbers, of the benchmark *loaded*."""
        seed, verify = self._checked
        keys = PointKeys(loaded, seed, verify)
        path = loaded.path if bundled.shipped(loaded.label, loaded.source) is None else loaded.path.name
        with params_code(loaded.bench.Params):
            for number, point in points:
                texts = {**swept.params, **{axis.name: point[axis.name] for axis in self._of("param")}}
                builder = ParamsBuilder(loaded.bench.Params, texts)
                topology = point.get(TOPOLOGY, self._default)
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


def check_chips(chips: Mapping[Setting, _Chip]) -> None:
    """Raises UnknownKeyError when none of *chips* takes all of its keys, WrongValueError for a value that none takes.

    *chips* has the text and path of each setting. The keys of a chip depend on the names of its blocks and on no
    number, and so do the types and ranges of its values. So only one of several chips that differ in other numbers
    alone is loaded, and of the numbers at one place only the least and the greatest of each type. A key or a value that
    some chips take, and any other error of a chip, is reported for its points.
    """
    flaw = cache(_flaw)
    kinds: dict[Setting, _Chip] = {}
    for setting, chip in chips.items():
        kinds.setdefault(_without_numbers(setting), chip)
    errors = _errors_of_all(kinds.values(), flaw)
    if errors and all(isinstance(error, UnknownKeyError) for error in errors):
        raise errors[0]
    for place in range(1, len(next(iter(chips)))):
        extremes = _extremes(dict.fromkeys(setting[place] for setting in chips))
        for value in extremes:
            alike = {_without_numbers(each): chip for each, chip in chips.items() if each[place] == value}
            wrong = [error for error in _errors_of_all(alike.values(), flaw) if isinstance(error, WrongValueError)]
            if wrong:
                raise wrong[0]


def _errors_of_all(chips: Iterable[_Chip], flaw: Callable[[str, str], KbError | None]) -> list[KbError]:
    """Returns the errors of *chips*, or none when one of them takes all of its keys and values."""
    errors: list[KbError] = []
    for chip in chips:
        error = flaw(*chip)
        if not isinstance(error, UnknownKeyError | WrongValueError):
            return []
        errors.append(error)
    return errors


def _without_numbers(setting: Setting) -> Setting:
    return tuple("" if number_of(text) is not None else text for text in setting)


def _extremes(texts: Iterable[str]) -> list[str]:
    """Returns the texts that are no numbers, and the least and the greatest number of each type that YAML reads."""
    found: list[str] = []
    numbers: dict[type, dict[float, str]] = {}
    for text in texts:
        number = number_of(text)
        if number is None:
            found.append(text)
        else:
            numbers.setdefault(type(read_yaml(text, text)), {})[number] = text
    for each in numbers.values():
        found += dict.fromkeys((each[min(each)], each[max(each)]))
    return found


def _flaw(text: str, path: str) -> KbError | None:
    try:
        _check_blocks(loads_topology(text, path))
    except KbError as error:
        return error
    return None


def _check_blocks(topology: Topology) -> None:
    """Raises TopologyError for a key or a value that a block of *topology* does not take."""
    registry = Registry()
    for node in {node.yaml_path: node for node in topology.graph.nodes.values()}.values():
        registry.spec(node, topology.source)
