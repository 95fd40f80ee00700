"""Launches on whole systems: all PEs start in one picosecond, and `kb run` tells the host's time from the kernels'."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from kb_cli.benchmark import bundled
from kb_cli.main import kb
from kb_engine import Engine, Host
from kb_engine.observe import Callbacks
from kb_messages import CubeTarget, KernelStart
from kb_topology import load_topology, loads_topology


def nothing(tl, *arguments):
    pass


@pytest.fixture(scope="module")
def four_sip():
    return load_topology(bundled.find("topologies", "four_sip"))


def test_every_pe_of_four_sips_starts_in_the_same_picosecond(four_sip):
    trace = []
    result = Host(Engine(four_sip, observers=[Callbacks(on_trace=trace.append)])).launch(nothing)
    assert len(result.pe_start_ps) == 512
    assert set(result.pe_start_ps.values()) == {result.target_start_ps}
    assert result.late_ps == {}
    assert {event.t_ps for event in trace if isinstance(event, KernelStart)} == {result.target_start_ps}


@pytest.mark.parametrize(
    ("targets", "pes"),
    [
        ([CubeTarget(sip=2, cube=9)], 8),
        ([CubeTarget(sip=0, cube=1, pes=(0, 7)), CubeTarget(sip=1, cube=15, pes=(2,)), CubeTarget(sip=3, cube=8)], 11),
        ([CubeTarget(sip=1, cube=cube) for cube in range(16)], 128),
    ],
)
def test_a_part_of_four_sips_starts_in_the_same_picosecond(four_sip, targets, pes):
    result = Host(Engine(four_sip)).launch(nothing, targets=targets)
    assert len(result.pe_start_ps) == pes
    assert set(result.pe_start_ps.values()) == {result.target_start_ps}


@pytest.mark.parametrize(("name", "messages"), [("one_sip", 16), ("four_sip", 19 + 16)])
def test_launches_with_bytes_slip_by_their_time_on_the_first_hop(name, messages):
    # io_cpu sends a message of 4096 bytes to each of 16 cubes at once, and on four_sip one to each of the 3 other
    # io_cpus, which then send 16 of their own. They share its link of 16 GB/s, 4096 x 62.5 ps each: the narrowest on
    # their way but that to each m_cpu, which is as wide and carries one of them. The SIP that is farthest in latency
    # decided the target, so it is late by all of that.
    text = bundled.find("topologies", name).read_text()
    old = "impl: builtin.io_cpu, overhead_ns: 10"
    assert text.count(old) == 1
    chip = loads_topology(text.replace(old, f"{old}, launch_nbytes: 4096"), f"{name}.yaml")
    result = Host(Engine(chip)).launch(nothing)
    assert max(result.late_ps.values()) == messages * 4096 * 625 // 10
    assert result.start_ps > result.target_start_ps


def test_a_page_of_every_slice_is_written_and_read_back():
    host = Host(Engine(load_topology(bundled.find("topologies", "one_sip"))))
    data = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    tensor = host.tensor("a", data, "f32", blocks=(128, 1))
    assert np.array_equal(host.read(tensor), data)
    assert host.write_ps > 500_000  # a call of the driver alone is 500 ns
    assert host.engine.clock.now == host.write_ps + host.read_ps


def run(folder, monkeypatch, *arguments):
    monkeypatch.chdir(folder)
    sizes = ["-p", "M=256", "-p", "N=256", "-p", "K=128", "-p", "tile=32x32x64"]
    done = CliRunner().invoke(kb, ["run", "gemm", *sizes, "--levers", "none", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_kb_run_reports_the_hosts_time_apart(tmp_path, monkeypatch):
    result = json.loads(run(tmp_path, monkeypatch, "--topology", "one_sip", "--json"))
    host, (launch,) = result["host"], result["launches"]
    assert result["verified"] is True
    assert result["latency_ns"] == pytest.approx(launch["end_ns"] - launch["start_ns"])
    assert launch["call_ns"] == host["write_ns"] > 500
    assert host["launch_ns"] == pytest.approx(launch["start_ns"] - launch["call_ns"])
    assert host["response_ns"] == pytest.approx(launch["response_ns"] - launch["end_ns"])
    assert (host["read_ns"], host["map_ns"], launch["late_pes"], launch["late_ns"]) == (0, 0, 0, 0)
    # What the host writes is not the kernels': each PE reads 32 rows of A and 16 columns of B and writes 32 x 16 of C.
    pes = 8 * 16
    assert launch["pes"] == pes
    assert result["bytes"]["hbm"] == {"read": pes * (32 + 16) * 128 * 2, "write": pes * 32 * 16 * 2}
    assert all(share <= 1 for share in result["utilization"].values())


def test_kb_run_says_what_the_launch_took(tmp_path, monkeypatch):
    said = run(tmp_path, monkeypatch, "--topology", "one_sip", "-p", "operands=replicated")
    assert "; without the host's launch (660.918 ns before the kernels, 140.918 ns after) and uploads (" in said


def test_kb_run_says_which_pes_were_late(tmp_path, monkeypatch):
    text = bundled.find("topologies", "one_sip").read_text()
    old = "impl: builtin.io_cpu, overhead_ns: 10"
    (tmp_path / "chip.yaml").write_text(text.replace(old, f"{old}, launch_nbytes: 4096"))
    said = run(tmp_path, monkeypatch, "--topology", "chip.yaml")
    assert "\nlate          128 of 128 PEs were reached after their target and began up to 4.096 us late\n" in said


def test_without_a_host_there_is_no_time_of_it(tmp_path, monkeypatch):
    assert json.loads(run(tmp_path, monkeypatch, "--json"))["host"] is None
