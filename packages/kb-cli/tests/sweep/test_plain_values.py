"""Values of a sweep in `--json`: what is a number in JSON is a number."""

import json

import pytest

from kb_cli.sweep.sweep_file import plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("-3", -3),
        ("102.4", 102.4),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("null", None),
        *(
            (text, text)
            for text in ("1e400", "nan", "NaN", "Infinity", "007", "128x128x128", "2 MiB", "0x10", "", "1_0")
        ),
        *((text, text) for text in ("٣", '"a"', "9" * 5000, "f16", "True")),
    ],
)
def test_a_text_is_read_as_a_json_value(text, value):
    found = plain_value(text)
    assert (type(found), found) == (type(value), value)


def test_a_sweep_has_numbers_in_params_axes_points_and_configurations(invoke, bench_file, tmp_path):
    place = "$.cube.nodes.hbm.bw_gbs"
    options = ["-p", "size=8,16", "-p", "label=y", "--set", f"{place}=102.4,204.8", "--over", "size", "--jobs", 1]
    said = invoke("sweep", bench_file(), *options, "--out", tmp_path, "--json")
    assert said.exit_code == 0, said.stderr
    found = json.loads(said.stdout)
    assert found["params"] == {"label": "y"}
    assert found["axes"] == {"bw_gbs": [102.4, 204.8], "size": [8, 16]}
    assert [each["values"] for each in found["points"]][1] == {"bw_gbs": 102.4, "size": 16}
    ran = [each["values"]["bw_gbs"] for each in found["configurations"]]
    assert sorted(ran) == [102.4, 204.8]
    (stored,) = tmp_path.glob("small-*/sweep.json")
    assert json.loads(stored.read_text())["axes"]["size"] == ["8", "16"], "a file that the page of older runs reads too"
