"""The definition of a sweep: a benchmark, a chip, and axes with their values. From a YAML file, from options, or
from both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import Struct

from kb_cli.benchmark.values.shapes import MOST_ROWS
from kb_cli.sweep.axis import TOPOLOGY, AxisGroup, Kind, SweepAxis, is_chip, named, read_table, values_of
from kb_cli.sweep.mix import BENCHMARK, MixedBenchmark, SweptBenchmark, swept_benchmarks
from kb_messages import BenchmarkError, read_text
from kb_topology import YamlSource, convert_checked, did_you_mean, listing, read_yaml

MOST_NBYTES = 16 << 20
"""The most bytes of a sweep's file. Source: assumed."""


class _Span(Struct, frozen=True, forbid_unknown_fields=True):
    """The values from `first` to `last`, by adding `step` or multiplying by `times`."""

    first: float = msgspec.field(name="from")
    last: float = msgspec.field(name="to")
    step: float | None = None
    times: float | None = None


class _Random(Struct, frozen=True, forbid_unknown_fields=True):
    points: Annotated[int, msgspec.Meta(ge=1)]
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    """A sweep's file. `rows` has points whose values belong together; all combinations with `set` and `params` run.

    Instead of `benchmark` and `params`, `benchmarks` may have several, each with its own parameters.
    """

    benchmark: str = ""
    benchmarks: list[MixedBenchmark] = []
    topology: Any = None
    set: dict[str, Any] = {}
    params: dict[str, Any] = {}
    rows: list[dict[str, Any]] = msgspec.field(name="list", default_factory=list)
    where: list[str] = []
    cost: str = ""
    over: list[str] = []
    best: list[str] = []
    within: Any = None
    random: _Random | None = None


class Definition(NamedTuple):
    """A sweep. `fixed` are parameters with one value. Every combination of a row of each group is a point.

    `mix` has the benchmarks: one that has the parameters `fixed`, or several with parameters of their own, which are
    the values of an axis `benchmark` that is added up.

    `topology` is "" where none is named: the benchmark's own then.

    A point has to meet all of the conditions `where`. With `most`, so many of them are drawn by `random_seed`. `cost`
    is an expression for the cost of a point, or empty. Points that differ in the axes `over` alone are one workload.
    Of points that differ in the axes `best` alone, parameters of the benchmark, the fastest one counts.
    Latencies that differ by a share of at most `within` (0 or more) count as equal on the Pareto front.
    """

    mix: tuple[SweptBenchmark, ...]
    topology: str
    fixed: Mapping[str, str]
    groups: tuple[AxisGroup, ...]
    where: tuple[str, ...] = ()
    most: int | None = None
    random_seed: int = 0
    cost: str = ""
    over: tuple[str, ...] = ()
    within: float = 0.0
    best: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often the latency of each benchmark counts, by label."""
        return {each.label: each.count for each in self.mix}

    @property
    def repeats_add_up(self) -> bool:
        """Whether rows that stand several times in a list belong to one workload. Only a list has equal rows."""
        lists = [group for group in self.groups if len(set(group.rows)) < len(group.rows)]
        return any(axis.name in self.over for group in lists for axis in group.axes)

    @property
    def axes(self) -> list[str]:
        """The names of all axes, in the order of tables."""
        return [axis.name for group in self.groups for axis in group.axes]


class SweepOptions(NamedTuple):
    """The options of the command line. Texts of `sets` and `params` are `PLACE=VALUES` and `KEY=VALUES`."""

    topology: str | None = None
    sets: Sequence[str] = ()
    params: Sequence[str] = ()
    table: Path | None = None
    where: Sequence[str] = ()
    cost: str = ""
    most: int | None = None
    random_seed: int | None = None
    over: Sequence[str] = ()
    within: str = ""
    best: Sequence[str] = ()


def defined(name: str, options: SweepOptions) -> Definition:
    """Returns the sweep of *name*, a sweep's YAML file or a benchmark, with *options*, which replace axes of the file.

    Raises BenchmarkError and TopologyError for an invalid sweep, with the place in the file.
    """
    file, label = _File(), ""
    if Path(name).suffix in (".yaml", ".yml"):
        file, label = _read(Path(name)), name
    benchmark = file.benchmark or ("" if label else name)
    if not benchmark and not file.benchmarks:
        raise BenchmarkError(label, "no benchmark", "its name", "add a line such as benchmark: gemm")
    _check_keys(file, label)
    mix = _mixed(file, options, label)
    values = {key: _texts(value, f"{label}: {key}") for key, value in {**file.set, **file.params}.items()}
    if options.topology is None and file.topology is not None:
        chips = _texts(file.topology, f"{label}: topology")
    else:
        chips = ("",) if options.topology is None else values_of(options.topology, "--topology")
    values = {TOPOLOGY: chips, **values}
    for option, texts in (("--set", options.sets), ("-p", options.params)):
        values |= {key: values_of(given, f"{option} {key}") for key, given in _assignments(option, texts).items()}
    rows = [{key: _text(value, f"{label}: list") for key, value in row.items()} for row in file.rows]
    if options.table is not None:
        rows, label = read_table(options.table), str(options.table)
    table = _table(rows, label, values)
    found = _definition(benchmark, mix, values, table, file, options)
    return found._replace(within=_within(options.within, file.within))


def _mixed(file: _File, options: SweepOptions, label: str) -> list[SweptBenchmark]:
    """Returns the benchmarks of `benchmarks`; none for a sweep of one. Raises BenchmarkError for parameters beside."""
    if not file.benchmarks:
        return []
    beside = {"benchmark": file.benchmark, "params": file.params, "best": file.best, "over": file.over}
    beside |= {"-p": options.params, "--best": options.best, "--over": options.over}
    if given := [key for key, value in beside.items() if value]:
        fix = "write the parameters of each benchmark under its params"
        raise BenchmarkError(f"{label}: benchmarks", f"{given[0]} beside it", "one of the two", fix)
    texts = []
    for each in file.benchmarks:
        where = f"{label}: benchmarks: {each.benchmark}"
        values = {key: _texts(value, f"{where}: {key}") for key, value in each.params.items()}
        if several := next((key for key, listed in values.items() if len(listed) > 1), None):
            raise BenchmarkError(f"{where}: {several}", f"{len(values[several])} values", "one value")
        texts.append({key: listed[0] for key, listed in values.items()})
    return swept_benchmarks(file.benchmarks, texts)


def _definition(
    benchmark: str,
    mix: Sequence[SweptBenchmark],
    values: Mapping[str, tuple[str, ...]],
    table: _Rows,
    file: _File,
    options: SweepOptions,
) -> Definition:
    alone = [key for key, texts in values.items() if len(texts) == 1 and not key.startswith("$")]
    fixed = {key: values[key][0] for key in alone if key != TOPOLOGY}
    keys = [*table.columns, *(key for key in values if key not in alone)]
    axes = dict(zip(keys, named(keys), strict=True))
    groups = [AxisGroup((axes[key],), tuple((text,) for text in texts)) for key, texts in values.items() if key in axes]
    if table.columns:
        groups.insert(0, AxisGroup(tuple(axes[key] for key in table.columns), table.rows))
    if mix:
        _check_chips_alone(axes)
        groups.append(AxisGroup((SweepAxis("benchmark", BENCHMARK),), tuple((each.label,) for each in mix)))
    groups.sort(key=lambda group: min(get_args(Kind).index(axis.kind) for axis in group.axes))
    drawn = file.random
    over = (BENCHMARK,) if mix else _known_axes(options.over or file.over, axes, fixed)
    return Definition(
        mix=tuple(mix) or (SweptBenchmark("", benchmark, fixed),),
        topology=values[TOPOLOGY][0],
        fixed=fixed,
        groups=tuple(groups),
        where=(*file.where, *options.where),
        most=options.most if options.most is not None else drawn.points if drawn else None,
        random_seed=options.random_seed if options.random_seed is not None else drawn.seed if drawn else 0,
        cost=options.cost or file.cost,
        over=over,
        best=_best_axes([name.strip() for text in options.best or file.best for name in text.split(",")], axes, over),
    )


def _check_chips_alone(axes: Mapping[str, SweepAxis]) -> None:
    """Raises BenchmarkError for a column of a list that is a parameter, where benchmarks have their own."""
    if found := next((axis.name for axis in axes.values() if axis.kind == "param"), None):
        fix = "write the parameters of each benchmark under its params"
        raise BenchmarkError(f"list: {found}", "a parameter beside benchmarks", "places of the chip", fix)


_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,18})?) ?(%?)")


def _within(option: str, in_file: Any) -> float:
    """Returns the tolerance of the Pareto front, a share: 0.01 for `1%`. *in_file* has it where *option* is empty.

    Raises BenchmarkError for a text that is no share below 1.
    """
    text = option or ("" if in_file is None else _text(in_file, "within"))
    matched = _SHARE.fullmatch(text.strip())
    share = 0.0 if matched is None else float(matched[1]) / (100 if matched[2] else 1)
    if text and (matched is None or share >= 1):
        raise BenchmarkError("--within", repr(text), "a share of the latency below 100 %", "write it like 1% or 0.01")
    return share


def _known_axes(names: Sequence[str], axes: Mapping[str, SweepAxis], fixed: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the axes that *names* name, as options write them or as tables do. Raises BenchmarkError.

    A parameter of *fixed* is no axis, and points that differ in it alone are one point each.
    """
    found = {**{axis.name: axis.name for axis in axes.values()}, **{key: axis.name for key, axis in axes.items()}}
    known = [*found, *fixed]
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known) or f"give its values with -p {name}=VALUES"
            raise BenchmarkError("--over", repr(name), f"a name that has values here: {listing(known)}", fix)
    return tuple(dict.fromkeys(found[name] for name in names if name in found))


def _best_axes(names: Sequence[str], axes: Mapping[str, SweepAxis], over: Sequence[str]) -> tuple[str, ...]:
    """Returns the parameters *names*, of whose values the fastest count. Raises BenchmarkError for anything but
    parameters with several values that leave an axis to compare, and for the axes *over*, which are added up.
    """
    known = [axis.name for axis in axes.values() if axis.kind == "param"]
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known) or f"give its values with -p {name or 'NAME'}=VALUES"
            needs = f"a parameter of the benchmark with several values: {listing(known)}"
            raise BenchmarkError("--best", repr(name), needs, fix)
        if name in over:
            raise BenchmarkError("--best", f"{name}, which --over adds up", "another parameter")
    left = [axis.name for axis in axes.values() if axis.name not in names and axis.name not in over]
    if names and not left:
        fix = f"leave --best out: the table of all points begins with the best {' and '.join(names)}"
        raise BenchmarkError("--best", f"all axes ({listing(names)})", "an axis that is left to compare", fix)
    return tuple(dict.fromkeys(names))


class _Rows(NamedTuple):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _table(rows: Sequence[Mapping[str, str]], label: str, values: Mapping[str, tuple[str, ...]]) -> _Rows:
    """Returns *rows* as columns and cells. Raises BenchmarkError for rows of different keys, and for a key of
    *values*.
    """
    if not rows:
        return _Rows((), ())
    columns = tuple(rows[0])
    for number, row in enumerate(rows):
        if set(row) != set(columns):
            raise BenchmarkError(f"{label}: row {number + 1}", f"values of {', '.join(row)}", ", ".join(columns))
    for column in columns:
        if len(values.get(column, ())) > (column == TOPOLOGY):
            raise BenchmarkError(column, f"values beside the values of {label}", "one of the two")
    if len(rows) > MOST_ROWS:
        raise BenchmarkError(label, f"{len(rows)} rows", f"at most {MOST_ROWS}")
    return _Rows(columns, tuple(tuple(row[column] for column in columns) for row in rows))


def _assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Returns the values that *texts* of *option* give to each key. Raises BenchmarkError for a key given twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, given = _assignment(option, text)
        if key in found:
            fix = "give all of its values once, with commas"
            raise BenchmarkError(f"{option} {key}", f"{found[key]!r} and {given!r}", "one list of values", fix)
        found[key] = given
    return found


def _assignment(option: str, text: str) -> tuple[str, str]:
    """Returns *text* cut at its last `=` before the values. Raises BenchmarkError for a text without one."""
    key, equals, given = text.rpartition("=") if text.startswith("$") else text.partition("=")
    if not equals or not key.strip() or (option == "--set") != key.startswith("$"):
        example = "--set '$.cube.nodes.hbm.bw_gbs=102.4,204.8'" if option == "--set" else "-p M=256,512"
        raise BenchmarkError(option, repr(text), "KEY=VALUES", f"write it like {example}")
    return key.strip(), given


def _check_keys(file: _File, label: str) -> None:
    """Raises BenchmarkError for a key of `set` that names no place of a chip, and for a place in `params`."""
    for key in file.set:
        if not is_chip(key):
            fix = "write a parameter of the benchmark under params"
            raise BenchmarkError(f"{label}: set", repr(key), "a place of the chip, like $.cube.nodes.hbm.bw_gbs", fix)
    for key in file.params:
        if is_chip(key):
            raise BenchmarkError(
                f"{label}: params", repr(key), "a parameter of the benchmark", "write a place of the chip under set"
            )


def _read(path: Path) -> _File:
    label = str(path)
    text = read_text(path, "a YAML file", BenchmarkError, MOST_NBYTES)
    found = read_yaml(text, label)
    if found is None:
        known = listing(field.encode_name for field in msgspec.structs.fields(_File))
        raise BenchmarkError(label, "an empty file", f"a mapping with some of {known}")
    return convert_checked(found, _File, YamlSource(label, text))


def _texts(value: Any, where: str) -> tuple[str, ...]:
    """Returns the texts of a value of a file: one value, a list, a mapping with from and to, or a text as options
    take it.
    """
    if isinstance(value, dict):
        try:
            span = msgspec.convert(value, _Span)
        except msgspec.ValidationError as error:
            raise BenchmarkError(where, f"a mapping ({error})", "from, to, and step or times") from None
        step = (
            f":*{_plain(span.times)}" if span.times is not None else f":{_plain(1 if span.step is None else span.step)}"
        )
        if span.times is not None and span.step is not None:
            raise BenchmarkError(where, "step and times", "one of the two")
        text = f"{_plain(span.first)}:{_plain(span.last)}{step}"
        texts = values_of(text, where)
        if texts == (text,):
            raise BenchmarkError(where, "a range of numbers with many digits", "at most 18 on each side of the point")
        return texts
    if isinstance(value, list):
        if not value:
            raise BenchmarkError(where, "no values", "at least one")
        listed = [_text(each, where) for each in value]
        if len(set(listed)) != len(listed):
            raise BenchmarkError(where, "a value twice", "every value once")
        return tuple(listed)
    return values_of(value, where) if isinstance(value, str) else (_text(value, where),)


def _plain(value: float) -> str:
    """Returns *value* with the digits that its file has, and without an exponent."""
    return f"{Decimal(str(value)):f}"


def _text(value: Any, where: str) -> str:
    """Returns one value of a file as `-p` and `--set` take it."""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value).decode()
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
