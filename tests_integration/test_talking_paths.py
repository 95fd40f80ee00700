"""Where the time of programs that wait for each other went: nothing is unknown. `nox -s cases` tries more programs."""

import random
from importlib import import_module
from pathlib import Path

import pytest
from sampled_cases import sampled

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    talking, laws, log_windows = map(import_module, ("talking", "attribution_laws", "log_windows"))


def chip(seed: int) -> tuple[str, int]:
    """The text of a chip by *seed*, and the depth of its queues."""
    rng = random.Random(seed)
    text, depth = (talking.TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8"), rng.choice((1, 2, 3))
    times = f"doorbell_ns: {rng.choice((0, 2, 7.5))}, credit_ns: {rng.choice((0, 2, 30))}"
    for old, new in (
        ("builtin.pe_cpu", f"builtin.pe_cpu, issue: {rng.choice(('blocking', 'scoreboard', 'decoupled'))}"),
        ("issue_ns: 4", f"issue_ns: {rng.choice((0, 4))}"),
        ("depth: 3, doorbell_ns: 2, credit_ns: 2", f"depth: {depth}, {times}"),
        ("builtin.pe_dma", f"builtin.pe_dma, outstanding: {rng.choice((1, 2))}"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text, depth


@pytest.mark.parametrize("seed", sampled(range(60), 8))
def test_every_instant_has_a_cause(seed: int) -> None:
    text, depth = chip(seed)
    talk = talking.draw(seed, (2, 3, 8)[seed % 3], depth, (5, 20, 60)[seed // 3 % 3])
    log = talking.log_of(text, talk, 1 + seed % 2)
    laws.check_laws(log)
    log_windows.check(log, 4)


def test_each_reason_to_wait_is_on_a_path_of_a_pe() -> None:
    text, depth = chip(4)
    found = laws.check_laws(talking.log_of(text, talking.draw(4, 3, depth, 90)))
    rows = [row for launch in found.launches for pe in launch.pes for row in pe.rows]
    assert {row.via for row in rows if row.what == "waits for other PEs"} >= {"message", "credit", "signal", "barrier"}
