"""A PE that does nothing changes no time of the others, and the script that says so would see it."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from sampled_cases import sampled_of_each

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    neighbours, random_chips = map(import_module, ("neighbours", "random_chips"))


def bundled(name: str) -> Any:
    return yaml.safe_load((ROOT / f"topologies/{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "topologies").glob("*.yaml")))
def test_the_idle_pe_has_links_to_all_that_the_last_pe_reaches(name: str) -> None:
    spec = bundled(name)
    graph = neighbours.loads_topology(yaml.safe_dump(neighbours.with_idle_pe(spec)), "wider").graph
    count = spec["cube"]["pe_layout"]["count"]
    for block in ("pe_dma", "pe_tcm", "pe_cpu"):
        last, idle = (
            {link.dst for link in graph.out_links(f"sip0.cube0.pe{number}.{block}") if ".pe" not in link.dst}
            for number in (count - 1, count)
        )
        own_channel = {"sip0.cube0.hbm31"} if (name, block) == ("u280_hbm", "pe_dma") else set()
        assert idle == last - own_channel
    assert graph.out_links(f"sip0.cube0.pe{count}.pe_dma")


def test_every_bundled_benchmark_has_parameters() -> None:
    cases = neighbours.bundled_cases()
    assert (
        {name for name, _, _ in cases} == set(neighbours.RUNS) == {p.stem for p in (ROOT / "benchmarks").glob("*.py")}
    )
    assert {chip for _, chip, _ in cases} == {path.stem for path in (ROOT / "topologies").glob("*.yaml")}


def test_one_picosecond_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_chips.run(random_chips.draw(1, 1))
    assert neighbours.compare("case", log, log) is None
    records = list(log.records())
    later = max(records, key=lambda each: each.t_out_ps)
    moved = replace(later, t_out_ps=later.t_out_ps + 1)
    other = SimpleNamespace(records=lambda: (moved if each is later else each for each in records))
    change = neighbours.compare("case", log, other)
    assert change is not None
    assert (change.n_changed, change.n_records) == (1, len(records))
    assert change.latency_ps == (later.t_out_ps, later.t_out_ps + 1)
    with pytest.raises(ValueError, match="which services"):
        neighbours.compare("case", log, SimpleNamespace(records=lambda: iter(records[1:])))


def test_a_change_ends_with_1_and_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = neighbours.Change("case", 2, 3, "read of pe0", (10, 9))
    monkeypatch.setattr("sys.argv", ["neighbours.py", "--cases", "2", "--processes", "1"])  # and one with more PEs
    monkeypatch.setattr(neighbours, "bundled_cases", list)
    for found, code in ((None, 0), (change, 1), ("0: refused", 1)):
        monkeypatch.setattr(neighbours, "_run", lambda _, found=found: found)
        assert neighbours.main() == code
        printed = capsys.readouterr().out
        assert ("case: 2 of 3 records changed, 10 -> 9 ps\n    first read of pe0\n" in printed) == (found is change)
        assert printed.endswith(f"3 cases, {3 * (found == '0: refused')} refused, {3 * (found is change)} changed\n")


ONE_CUBE_OR_LESS = ("one_cube", "one_cube_banked", "one_pe", "u280_hbm")
BUNDLED = [each for each in neighbours.bundled_cases() if each.chip in ONE_CUBE_OR_LESS]


@pytest.mark.parametrize("case", sampled_of_each(BUNDLED, lambda case: case.chip, 6), ids=str)
def test_an_idle_neighbour_changes_no_time_of_a_benchmark(case: Any) -> None:
    assert neighbours.run_bundled(case) is None


@pytest.mark.parametrize("most_pes", [1, 4])
def test_an_idle_neighbour_changes_no_time_on_random_chips(most_pes: int) -> None:
    cases = [neighbours.RandomCase(seed, most_pes) for seed in range(40 // most_pes)]
    assert [change for case in cases if (change := neighbours.run_random(case)) is not None] == []
