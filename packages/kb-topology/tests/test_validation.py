"""Comparisons of a chip with a device in its file: which forms are refused, by file and line."""

import pytest

from kb_messages import TopologyError
from kb_topology import YamlSource
from kb_topology.chip.loader import load_spec

FILE = """\
name: x
wire_ps_per_mm: 7
cube: {{nodes: {{}}}}
fidelity:
  - device: d
    test: gemm
    p90: 0.1
    rows: 25
    source: gemm.py
{}"""
KERNEL = ("digest: 0123456789ab", "kernel: gemm", "startup: counted")


def text(*lines):
    return FILE.format("".join(f"    {line}\n" for line in lines))


def spec(*lines):
    return load_spec(YamlSource("f.yaml", text(*lines)))


def test_a_comparison_of_a_kernel_names_the_runs_that_are_like_its_rows():
    more = ("equal: {dtype: [f16, bf16], tile: [none], split: [4]}", "ranges: {M: [64, 4096], scale: [0.5, 1]}")
    (found,) = spec(*KERNEL, *more, "times: kernel times of a profiler").fidelity
    assert (found.kernel, found.startup, found.times) == ("gemm", "counted", "kernel times of a profiler")
    assert found.equal == {"dtype": ["f16", "bf16"], "tile": ["none"], "split": [4]}
    assert found.ranges == {"M": (64, 4096), "scale": (0.5, 1)}
    assert found.rows_text == "25 gemm rows of d"


def test_a_comparison_of_a_part_of_the_chip_has_no_conditions():
    (found,) = spec().fidelity
    assert not found.kernel
    assert found.is_of("0123456789abcdef")


@pytest.mark.parametrize(
    ("lines", "place", "said"),
    [
        (("startup: counted",), "f.yaml:10:5: $.fidelity[0].startup", "got 'startup' without a kernel"),
        (("ranges: {M: [1, 2]}",), "f.yaml:10:5: $.fidelity[0].ranges", "got 'ranges' without a kernel"),
        (("startup_ns: 5",), "f.yaml:10:5: $.fidelity[0].startup_ns", "got 'startup_ns' without a kernel"),
        ((*KERNEL, "startup_ns: 5"), "f.yaml:13:5: $.fidelity[0].startup_ns", "'startup_ns' beside startup: counted"),
        (KERNEL[1:], "f.yaml:10:5: $.fidelity[0].kernel", "got a kernel without a digest"),
        (KERNEL[:2], "f.yaml:11:5: $.fidelity[0].kernel", "got a kernel without 'startup'"),
        ((*KERNEL, "ranges: {M: [2, 1]}"), "f.yaml:13:14: $.fidelity[0].ranges.M", "needs the smaller bound first"),
        ((*KERNEL, "ranges: {M: [1]}"), "f.yaml:13:14: $.fidelity[0].ranges.M", "needs a list of length 2"),
        ((*KERNEL, "ranges: {M: 1}"), "f.yaml:13:14: $.fidelity[0].ranges.M", "got 1, needs a list"),
        ((*KERNEL, "equal: {M: [1]}", "ranges: {M: [1, 2]}"), "f.yaml:14:14: ", "got M in equal too"),
        ((*KERNEL, "equal: {dtype: f16}"), "f.yaml:13:13: $.fidelity[0].equal.dtype", "got 'f16', needs a list"),
        (
            (*KERNEL, "equal: {dtype: []}"),
            "f.yaml:13:13: $.fidelity[0].equal.dtype",
            "got a list of 0, needs a list of length >= 1",
        ),
        ((*KERNEL[:2], "startup: maybe"), "f.yaml:12:5: $.fidelity[0].startup", "needs one of counted, left out"),
        ((*KERNEL, "sha256: xyz"), "f.yaml:13:5: $.fidelity[0].sha256", "needs a string"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_at_their_line(lines, place, said):
    with pytest.raises(TopologyError) as caught:
        spec(*lines)
    assert str(caught.value).startswith(place)
    assert said in str(caught.value)
