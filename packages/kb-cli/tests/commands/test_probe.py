"""`kb probe` on the bundled one_cube and one_pe."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

# On one_cube: 14 ps and 21 ps of wire and 2 ns of crossbar each way; 45 ns at the slice.
OWN_HALF_PS = 2 * (14 + 2000 + 21) + 45000


def test_json_has_the_hops_that_add_up(invoke):
    result = json.loads(invoke("probe", "sip0.cube0.pe0", "sip0.cube0.hbm1", "--nbytes", "4KiB", "--json").stdout)
    assert result["latency_ns"] == (OWN_HALF_PS + 40000) / 1000
    assert sum(round(hop["latency_ns"] * 1000) for hop in result["hops"]) == result["latency_ps"]
    assert [hop["node"] for hop in result["hops"]] == [
        "sip0.cube0.xbar0",
        "sip0.cube0.hbm1",
        "sip0.cube0.hbm1",
        "sip0.cube0.xbar0",
        "sip0.cube0.pe0.pe_dma",
        "sip0.cube0.hbm1",
    ]
    assert result["bandwidth_gbs"] == 4096 * 1000 / (OWN_HALF_PS + 40000)
    assert (result["bottleneck"], result["bottleneck_gbs"]) == ("sip0.cube0.hbm1", 102.4)
    assert "flows" not in result


def test_several_flows_are_listed(invoke):
    result = json.loads(invoke("probe", "pe0", "hbm0", "--flows", "2", "--op", "write", "--json").stdout)
    assert [flow["src"] for flow in result["flows"]] == ["sip0.cube0.pe0.pe_dma", "sip0.cube0.pe1.pe_dma"]
    assert result["operation"] == "write"


def test_the_table_ends_with_latency_bandwidth_and_bottleneck(invoke):
    text = invoke("probe", "pe0", "hbm0", "--nbytes", "1 KiB").stdout
    assert text.splitlines()[0] == "sip0.cube0.pe0.pe_dma reads from sip0.cube0.hbm0: 1024 B on one_cube"
    assert text.splitlines()[-1] == (
        "latency 59.070 ns, achieved 17.34 GB/s; bottleneck sip0.cube0.hbm0, which has 102.4 GB/s"
    )


def test_all_pairs_make_a_table_a_picture_and_json(invoke, tmp_path):
    picture = tmp_path / "maps" / "all.svg"
    result = json.loads(invoke("probe", "--all", "--heatmap", str(picture), "--json").stdout)
    assert (len(result["sources"]), len(result["memories"])) == (8, 9)
    assert result["memories"][-1] == "sip0.cube0.sram"
    assert result["latency_ns"][0][0] == (OWN_HALF_PS + 40000) / 1000
    assert result["latency_ns"][0][4] > result["latency_ns"][0][0]
    assert result["heatmap"] == str(picture)
    root = ElementTree.parse(picture).getroot()
    cells = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert sum(str(each).startswith("heat") for each in cells) == 2 * 8 * 9  # latency and bandwidth of 8 PEs
    text = invoke("probe", "--all", "--heatmap", str(picture)).stdout
    assert f"heat map      {picture}" in text
    assert "pe7" in text


def test_a_full_disk_keeps_the_map_before(invoke, tmp_path, full_disk):
    picture = tmp_path / "all.svg"
    picture.write_text("before")
    with full_disk():
        done = invoke("probe", "--all", "--topology", "one_pe", "--heatmap", str(picture))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {picture}: got a full disk (No space left on device), needs room to write; ")
    assert picture.read_text() == "before"
    assert list(tmp_path.iterdir()) == [picture]


# 28 ps of wire to the router and as many behind it, 2 ns in it; a DMA has 64 GB/s of the NOC, and 128 of its own TCM.
OVER_THE_NOC_PS = 2 * (28 + 2000 + 28) + 64000


@pytest.mark.parametrize(
    ("dst", "latency_ps", "bottleneck"),
    [
        ("sram", OVER_THE_NOC_PS + 12000, "sip0.cube0.noc -> sip0.cube0.pe0.pe_dma"),
        ("pe1", OVER_THE_NOC_PS + 2000, "sip0.cube0.pe1.pe_tcm -> sip0.cube0.noc"),
        ("pe0", 2000 + 32000, "sip0.cube0.pe0.pe_tcm"),
    ],
)
@pytest.mark.parametrize("op", ["read", "write"])
def test_sram_and_tcms_are_memories_like_hbm(invoke, dst, latency_ps, bottleneck, op):
    result = json.loads(invoke("probe", "pe0", dst, "--op", op, "--json").stdout)
    assert result["latency_ps"] == latency_ps
    assert sum(round(hop["latency_ns"] * 1000) for hop in result["hops"]) == latency_ps
    assert all(hop["latency_ns"] >= 0 for hop in result["hops"])
    if op == "read":
        assert result["bottleneck"] == bottleneck


def test_all_pairs_include_the_memories_that_are_asked_for(invoke, tmp_path):
    asked = ("--all", "--heatmap", str(tmp_path / "x.svg"), "--memories")
    result = json.loads(invoke("probe", *asked, "tcm,sram", "--json").stdout)
    assert result["memories"] == ["sip0.cube0.sram", *[f"sip0.cube0.pe{number}.pe_tcm" for number in range(8)]]
    assert result["latency_ns"][1] == [80.112, 70.112, 34.0, *[70.112] * 6]
    assert invoke("probe", *asked, "tcm").stdout.splitlines()[2].split() == ["ns", *[f"pe{pe}" for pe in range(8)]]


def test_the_picture_is_named_for_its_content(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--nbytes", "64"], ["--memories", "sram,hbm"], ["--memories", "tcm,hbm"]):
        assert invoke("probe", "--all", "--topology", "one_pe", *more).exit_code == 0
    found = sorted(path.name for path in (tmp_path / "kb-runs").iterdir())
    assert found == ["probe-one_pe-4096-hbm-tcm.svg", "probe-one_pe-4096.svg", "probe-one_pe-64.svg"]


def test_one_pair_alone_has_a_map_too(invoke, tmp_path):
    picture = tmp_path / "one.svg"
    assert invoke("probe", "--all", "--topology", "one_pe", "--heatmap", str(picture)).exit_code == 0
    ElementTree.parse(picture)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["pe0"], "error: kb probe: got no DST, needs SRC and DST, or --all; as in kb probe pe0 hbm0"),
        (["pe0", "hbm0", "--nbytes", "4 kiB"], "error: --nbytes: got '4 kiB', needs a size such as 64, 4 KiB or 1 MiB"),
        (["pe0", "hbm0", "--flows", "0"], "error: --flows: got 0, needs 1 or more"),
        (["pe0", "hbm0", "--flows", "9"], "error: --flows: got 9, needs at most 8, one for each DMA"),
        (
            ["pe0", "--all"],
            "error: --all: got SRC beside it, needs no more than --nbytes and --memories; it probes every pair, alone",
        ),
        (
            ["pe0", "hbm0", "--heatmap", "x.svg"],
            "error: --heatmap: got 'x.svg', needs --all beside it; one transfer has no map",
        ),
        (
            ["--all", "--topology", "one_pe", "--heatmap", "."],
            (
                "Usage: kb probe [OPTIONS] [SRC] [DST]\nTry 'kb probe --help' for help.\n\n"
                "Error: Invalid value for '--heatmap': File '.' is a directory."
            ),
        ),
        (
            ["pe0", "hbm0", "--memories", "hbm"],
            "error: --memories: got 'hbm', needs --all beside it; name the memory as DST",
        ),
        (
            ["--all", "--memories", "hbm,l2"],
            "error: --memories: got 'hbm,l2', needs some of hbm, sram and tcm; as in --memories hbm,tcm",
        ),
        (
            ["--all", "--memories", "sram", "--topology", "one_pe"],
            "error: one_pe: got no DMA or no memory, needs both; give the topology PEs and SRAM",
        ),
        (
            ["pe0", "hbm8"],
            "error: node: got 'sip0.cube0.hbm8', needs the id of a node; did you mean 'sip0.cube0.hbm7'?",
        ),
        (
            ["--all", "--nbytes", "3GiB"],
            "error: --nbytes: got 3221225472, needs at most the 16777216 of the smallest memory",
        ),
    ],
)
def test_wrong_input_is_one_sentence(invoke, args, sentence):
    result = invoke("probe", *args)
    assert (result.exit_code, result.stderr.strip()) == (2, sentence)


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 19, "٣", "1_0", "-1"])
def test_a_size_of_other_digits_is_one_sentence(invoke, size):
    done = invoke("probe", "pe0", "hbm0", "--nbytes", size)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: --nbytes: got '{size[:1000]}")
    assert done.stderr.endswith(", needs a size such as 64, 4 KiB or 1 MiB\n")
