import pytest

from kb_topology.text.sentences import cut, did_you_mean, listing, near_names, short


def test_a_close_name_is_suggested_and_a_far_one_is_not():
    assert did_you_mean("brige", ["xbar", "bridge"]) == "did you mean 'bridge'?"
    assert did_you_mean("qqq", ["xbar", "bridge"]) == ""


IMPLS = ["builtin.cached", "builtin.hbm_banked", "builtin.hbm_fixed", "builtin.pe_gemm", "builtin.xbar"]


@pytest.mark.parametrize(
    ("name", "names", "close"),
    [
        ("builtin.hbn", IMPLS, "'builtin.hbm_banked' or 'builtin.hbm_fixed'"),
        ("builtin.hbm-fixed", IMPLS, "'builtin.hbm_fixed'"),
        ("builtin.gemm", IMPLS, "'builtin.pe_gemm'"),
        ("bultin.xbar", IMPLS, "'builtin.xbar'"),
        ("xbar", IMPLS, "'builtin.xbar'"),
        ("H100", ["devices/a100", "devices/h100", "one_pe"], "'devices/h100'"),
        ("gemv", ["gemm", "decode_gemv"], "'decode_gemv'"),
        ("cubes", ["cube", "cubes_per_sip"], "'cube'"),
        ("norm", ["layer_norm", "rms_norm", "rope"], "'layer_norm' or 'rms_norm'"),
        ("m", ["M", "N"], "'M'"),
        ("cube0.pe3.gem", ["cube0.pe3.gemm", "cube10.pe3.gemm"], "'cube0.pe3.gemm'"),
        ("cube0.pe9", [f"cube0.pe{number}" for number in range(8)], "'cube0.pe7'"),
    ],
)
def test_the_closest_name_agrees_below_its_namespace_or_in_a_word(name, names, close):
    assert did_you_mean(name, names) == f"did you mean {close}?"


@pytest.mark.parametrize("name", ["builtin.bridge", "builtin.xyz", ""])
def test_a_shared_namespace_makes_no_names_close(name):
    assert did_you_mean(name, IMPLS) == ""


@pytest.mark.parametrize("name", ["", "a."])
def test_nothing_is_close_to_an_empty_name(name):
    assert did_you_mean(name, ["in_", "_out", "a.b_", "a._b"]) == ""


def test_at_most_three_near_names_come_closest_first():
    assert near_names("sun", ["sun_of", "sums", "sum", "exp", "sub", "sung"]) == ["sun_of", "sung", "sum"]


def test_a_listing_says_how_many_it_left_out():
    assert listing(["a", "b", "c"], limit=2) == "a, b and 1 more"
    assert listing([]) == "none"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), ("x\ny", r"'x\ny'"), ({"a": 1}, "a mapping"), ([1, 2], "a list of 2"), (0, "0")],
)
def test_values_are_shown_as_yaml_writers_know_them(value, text):
    assert short(value) == text


def test_long_values_are_cut():
    assert cut("x" * 61) == "x" * 60 + "..."
