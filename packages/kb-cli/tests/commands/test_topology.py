"""`kb topology`: counts, pictures, and the errors of both subcommands."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result

from kb_cli.benchmark import bundled
from kb_cli.report.data.chip import default_view
from kb_topology import load_topology, loads_topology

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_show_lists_the_parts_and_the_place_of_the_picture(invoke: Invoke, here: Path) -> None:
    done = invoke("topology", "show", "one_pe")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "one_pe: One PE with one HBM slice behind one XBAR."
    assert lines[2] == "1 SIP, 1 cube, 1 PE, 9 nodes"
    assert ["hbm", "1"] in [line.split() for line in lines]
    # 2 mm x 7 ps
    assert ["pe_dma", "xbar", "both", "1", "128", "128", "2", "14"] in [line.split() for line in lines]
    assert [line.split()[:5] for line in lines if line.startswith("tcm")] == [
        ["tcm", "1", "2", "MiB", "sip0.cube0.pe0.pe_tcm"]
    ]
    assert lines[-1] == "picture (cube): one_pe-cube.svg"
    assert ElementTree.parse(here / "one_pe-cube.svg").getroot().tag.endswith("svg")


def test_show_as_json_has_counts_links_and_the_memory_map(invoke: Invoke, here: Path) -> None:
    found = json.loads(invoke("topology", "show", "four_sip", "--json", "--view", "sip", "--out", "x.svg").stdout)
    assert (found["sips"], found["cubes"], found["pes"]) == (4, 64, 512)
    assert found["nodes"]["ucie"] == 256
    (mesh,) = [group for group in found["links"] if group["a"] == group["b"] == "ucie"]
    # 4 SIPs with 4 x 3 links east to west and as many north to south
    assert mesh == {
        "a": "ucie",
        "b": "ucie",
        "both_ways": True,
        "links": 96,
        "bw_gbs": 256.0,
        "total_gbs": 96 * 256.0,
        "length_mm": 2.0,
        "latency_ps": 14,
    }
    # HBM, TCM and registers of 64 cubes, 8 in a row each; and SRAM
    assert len(found["memory_map"]) == 4 * 64
    assert found["memory_map"][0] == {
        "space": "hbm",
        "count": 8,
        "nbytes": 2 << 30,
        "first": "sip0.cube0.hbm0",
        "last": "sip0.cube0.hbm7",
        "base": 1 << 48,
        "stride": 1 << 38,
    }
    assert (found["view"], found["part"], found["picture"]) == ("sip", "", "x.svg")
    assert "run" not in found
    assert "four_sip: SIP" in (here / "x.svg").read_text()


def test_show_says_which_runs_were_compared_with_a_device(invoke: Invoke, here: Path) -> None:
    text = bundled.find("topologies", "one_pe").read_text()
    digest = load_topology(bundled.find("topologies", "one_pe")).digest
    of_rows = "device: d, test: gemm, p90: 0.1, rows: 9, source: x.py"
    runs = "kernel: gemm, equal: {dtype: [f16, bf16]}, ranges: {M: [1, 64]}, startup: counted, times: a wall clock"
    stated = [f"{of_rows}, digest: '{digest}', {runs}", f"{of_rows}, digest: '{'0' * 12}'"]
    Path("chip.yaml").write_text(f"{text}\nfidelity: [{', '.join(f'{{{each}}}' for each in stated)}]\n")
    rows, runs = "compared with 9 gemm rows of d (p90 0.1)", "gemm with dtype=f16 or bf16, M from 1 to 64"
    compared = [
        f"{rows}: {runs}; start-up counted; a wall clock",
        f"{rows}: a part of the chip alone; the chip was changed since",
    ]
    lines = invoke("topology", "show", "chip.yaml").stdout.splitlines()
    assert [line for line in lines if line.startswith("compared")] == compared
    assert json.loads(invoke("topology", "show", "chip.yaml", "--json").stdout)["compared"] == compared
    assert json.loads(invoke("topology", "show", "one_pe", "--json").stdout)["compared"] == []


def test_parts_that_repeat_from_cube_to_cube_are_one_row_of_the_map(invoke: Invoke) -> None:
    lines = invoke("topology", "show", "four_sip").stdout.splitlines()
    (hbm,) = [line.split() for line in lines if line.startswith("hbm") and "GiB" in line]
    # sip 3 << 60 | cube 15 << 52 | hbm 1 << 48 | unit 7 << 38
    end = 3 << 60 | 15 << 52 | 1 << 48 | 7 << 38
    assert hbm == ["hbm", "512", "2", "GiB", "sip0.cube0.hbm0", hex(1 << 48), "sip3.cube15.hbm7", hex(end)]


ONE_PE = Path(__file__).parents[4] / "topologies" / "one_pe.yaml"


@pytest.mark.parametrize(
    ("wire", "command"),
    [
        ("pe_scheduler -> pe_dma", "vector_add"),
        ("pe_dma -> pe_fetch_store", "gemm"),
        ("pe_math -> pe_fetch_store", "softmax"),
    ],
)
def test_blocks_without_a_wire_are_reported(invoke: Invoke, here: Path, wire: str, command: str) -> None:
    text = ONE_PE.read_text()
    assert f"- {wire}\n" in text
    (here / "open.yaml").write_text(text.replace(f"- {wire}\n", "\n"))
    pe, (first, second) = "sip0.cube0.pe0", wire.split(" -> ")
    assert invoke("topology", "check", "open.yaml").stdout.splitlines()[-2:] == [
        (
            f"  note: no wire {pe}.{first} -> {pe}.{second}; add the wires to pe_template, or "
            "GEMMs and math cannot run, or have tiles that suit no array"
        ),
        "open.yaml: ok",
    ]
    assert "needs a wire to a block that serves it" in invoke("run", command, "--topology", "open.yaml").stderr


@pytest.mark.parametrize("chip", sorted(ONE_PE.parent.rglob("*.yaml")), ids=lambda path: path.stem)
def test_bundled_chips_have_no_gap(invoke: Invoke, chip: Path) -> None:
    assert "  note: " not in invoke("topology", "check", chip).stdout


def test_a_scheduler_that_does_not_know_the_array_is_reported(invoke: Invoke, here: Path) -> None:
    """A GEMM runs, in a tile that is chosen without the array."""
    (here / "open.yaml").write_text(ONE_PE.read_text().replace("- pe_scheduler -> pe_gemm\n", "\n"))
    found = json.loads(invoke("topology", "check", "open.yaml", "--json").stdout)
    assert found["unwired"] == ["sip0.cube0.pe0.pe_scheduler -> sip0.cube0.pe0.pe_gemm"]


def test_a_scheduler_without_a_wire_to_math_is_reported(invoke: Invoke, here: Path) -> None:
    (here / "open.yaml").write_text(ONE_PE.read_text().replace("- pe_scheduler -> pe_math\n", "\n"))
    said = "note: no wire sip0.cube0.pe0.pe_scheduler -> sip0.cube0.pe0.pe_math; "
    assert said in invoke("topology", "check", "open.yaml").stdout
    error = invoke("run", "softmax", "--topology", "open.yaml").stderr
    assert "; add `pe_scheduler -> pe_math` to the wires of pe_template, and a pe_math if there is none, " in error


def test_parts_without_a_way_between_them_are_reported(invoke: Invoke, here: Path) -> None:
    """Two cubes of one HBM and one PE each, joined by no link, and by a link of one direction."""
    text = ONE_PE.read_text()
    both = text.replace("cube:\n", "cubes_per_sip: 2\ncube:\n", 1)
    (here / "apart.yaml").write_text(both)
    way = "sip0.cube{}.pe0.pe_dma to sip0.cube{}.hbm0"
    first, second = way.format(0, 1), way.format(1, 0)
    assert invoke("topology", "check", "apart.yaml").stdout.splitlines()[-2:] == [
        f"  note: no way from {first}, {second}; add links that join the parts of the chip",
        "apart.yaml: ok",
    ]
    link = '{from: "cube[0].xbar[0]", to: "cube[1].xbar[0]", bw_gbs: 64, length_mm: 2'
    unread = "sip0.cube1.hbm0 to sip0.cube0.pe0.pe_dma"
    for ways, apart in ((", both_ways: false}", [second, unread]), ("}", [])):
        joined = both.replace("cube:\n", f"sip:\n  links:\n    - {link}{ways}\ncube:\n", 1)
        (here / "apart.yaml").write_text(joined)
        assert json.loads(invoke("topology", "check", "apart.yaml", "--json").stdout)["apart"] == apart


def test_memories_without_a_way_are_reported(invoke: Invoke, here: Path) -> None:
    (here / "apart.yaml").write_text(
        "".join(line for line in ONE_PE.read_text().splitlines(keepends=True) if 'to: "hbm[0]"' not in line)
    )
    assert invoke("topology", "check", "apart.yaml").stdout.splitlines()[-3:] == [
        "  note: no PE has a way to sip0.cube0.hbm0; add links to reach them",
        "  note: no way to any HBM or SRAM from sip0.cube0.pe0.pe_dma; add links to reach them",
        "apart.yaml: ok",
    ]
    found = json.loads(invoke("topology", "check", "apart.yaml", "--json").stdout)
    assert (found["unreached"], found["cut_off"]) == (["sip0.cube0.hbm0"], ["sip0.cube0.pe0.pe_dma"])


@pytest.mark.parametrize("last", ["bw_gbs: 102.4, length_mm: 3", "bw_gbs: 128, length_mm: 2"])
def test_memories_without_a_way_back_are_reported(invoke: Invoke, here: Path, last: str) -> None:
    """The link between crossbar and HBM, and the one between DMA and crossbar, leads away from the DMA alone."""
    (here / "away.yaml").write_text(ONE_PE.read_text().replace(last, f"{last}, both_ways: false"))
    assert invoke("topology", "check", "away.yaml").stdout.splitlines()[-3:] == [
        "  note: no way back to any PE from sip0.cube0.hbm0; add links that lead back",
        "  note: no way back from any HBM or SRAM to sip0.cube0.pe0.pe_dma; add links that lead back",
        "away.yaml: ok",
    ]
    found = json.loads(invoke("topology", "check", "away.yaml", "--json").stdout)
    assert (found["no_way_back"], found["unanswered"]) == (["sip0.cube0.hbm0"], ["sip0.cube0.pe0.pe_dma"])
    assert (found["unreached"], found["cut_off"], found["apart"]) == ([], [], [])


@pytest.mark.parametrize("name", ["one_pe", "one_cube_banked", "four_sip"])
def test_bundled_chips_have_ways_to_all_memories(invoke: Invoke, name: str) -> None:
    assert "note:" not in invoke("topology", "check", name).stdout


def test_a_picture_that_cannot_be_written_is_refused(invoke: Invoke) -> None:
    done = invoke("topology", "show", "one_pe", "--out", "no/such.svg")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --out: got no/such.svg in a folder that is not there, needs a folder that is; make no first\n"
    )


def test_a_full_disk_keeps_the_picture_before(
    invoke: Invoke, here: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    assert invoke("topology", "show", "one_pe", "--out", "chip.svg").exit_code == 0
    before = (here / "chip.svg").read_bytes()
    with full_disk():
        done = invoke("topology", "show", "one_cube", "--out", "chip.svg")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: chip.svg: got a full disk (No space left on device), needs room to write; ")
    assert (here / "chip.svg").read_bytes() == before
    assert [each.name for each in here.iterdir()] == ["chip.svg"]


def test_a_name_becomes_a_file_name(invoke: Invoke, here: Path) -> None:
    (here / "odd.yaml").write_text("name: ..a b\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n")
    assert invoke("topology", "show", "odd.yaml").exit_code == 0
    assert (here / "a_b-cube.svg").exists()


def test_a_name_leads_into_no_other_folder(invoke: Invoke, here: Path) -> None:
    (here / "odd.yaml").write_text("name: ../a\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n")
    done = invoke("topology", "show", "odd.yaml")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: odd.yaml:1:1: $.name: got '../a', needs at most 100 printable characters without slashes\n",
    )
    assert [path.name for path in here.iterdir()] == ["odd.yaml"]


@pytest.mark.parametrize(
    ("more", "view"),
    [
        ("", "cube"),
        ("cubes_per_sip: 2\n", "sip"),
        ("sips: 2\n", "system"),
        ("system: {nodes: {host: {kind: host, impl: x.y}}}\n", "system"),
    ],
)
def test_the_view_is_the_widest_that_shows_something(more: str, view: str) -> None:
    assert default_view(loads_topology(f"name: x\nwire_ps_per_mm: 7\n{more}cube: {{nodes: {{}}}}\n")) == view


def test_topology_check_counts(invoke: Invoke) -> None:
    done = invoke("topology", "check", "one_pe")
    blocks = ("cpu", "scheduler", "dma", "fetch_store", "gemm", "math", "tcm")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:] == [
        f"  9 nodes: 1 hbm, 1 xbar, {', '.join(f'1 pe_{block}' for block in blocks)}",
        "  1 PE, 4 links (each direction counts), 14 wires",
        "  memories: 1 x 2 GiB hbm, 1 x 512 KiB reg, 1 x 2 MiB tcm",
        "one_pe: ok",
    ]
    found = json.loads(invoke("topology", "check", "one_cube", "--json").stdout)
    assert (found["pes"], found["nodes"]["pe_gemm"]) == (8, 8)


def test_check_and_show_name_slow_pes(invoke: Invoke, here: Path) -> None:
    text = Path(bundled.find("topologies", "one_cube")).read_text()
    (here / "slow.yaml").write_text(text + 'slow: {"pe[1:3]": 1.5, pe7: 4, pe0: 1}\n')
    said = "slow PEs: sip0.cube0.pe1 by 1.5, sip0.cube0.pe2 by 1.5, sip0.cube0.pe7 by 4"
    factors = {"sip0.cube0.pe1": 1.5, "sip0.cube0.pe2": 1.5, "sip0.cube0.pe7": 4.0}
    assert f"  {said}" in invoke("topology", "check", "slow.yaml").stdout.splitlines()
    assert said in invoke("topology", "show", "slow.yaml").stdout.splitlines()
    assert json.loads(invoke("topology", "check", "slow.yaml", "--json").stdout)["slow"] == factors
    assert json.loads(invoke("topology", "show", "slow.yaml", "--json").stdout)["slow"] == factors
    assert "slow" not in json.loads(invoke("topology", "check", "one_cube", "--json").stdout)


def test_topology_check_refuses(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: [\n")
    done = invoke("topology", "check", "bad.yaml")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: bad.yaml:2:1: ")
