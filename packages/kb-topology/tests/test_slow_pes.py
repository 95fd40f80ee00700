"""Slow PEs: the names that a key may have, the errors word for word, the digest, and the change of one value."""

import pytest

from kb_messages import TopologyError
from kb_topology import UnknownKeyError, WrongValueError, YamlSource, loads_topology, parse_path, with_values


def slow(make, text):
    return make("wire_ps_per_mm: 7.0", f"wire_ps_per_mm: 7.0\nslow: {text}")


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("{pe3: 2}", {"sip0.cube0.pe3": 2.0}),
        ('{"pe[3]": 1.5}', {"sip0.cube0.pe3": 1.5}),
        ('{"sip0.cube0.pe3": 2, cube0.pe1: 1000}', {"sip0.cube0.pe1": 1000.0, "sip0.cube0.pe3": 2.0}),
        ('{"pe[1:3]": 4}', {"sip0.cube0.pe1": 4.0, "sip0.cube0.pe2": 4.0}),
        ('{"sip[*].cube[*].pe[*]": 3}', {f"sip0.cube0.pe{number}": 3.0 for number in range(4)}),
        ("{pe0: 1, pe1: 1.0}", {}),
        ("{}", {}),
    ],
)
def test_keys_name_pes(small, text, factors):
    topology = slow(small, text)
    assert dict(topology.slow) == factors
    assert list(topology.slow) == list(factors)
    assert [topology.slow_factor(pe) for pe in topology.graph.pe_ids] == [
        factors.get(pe, 1.0) for pe in topology.graph.pe_ids
    ]


def test_keys_name_pes_of_several_cubes_and_sips(whole):
    pes = slow(whole, '{"sip[1].cube[4:6].pe[0]": 2, "cube[2].pe1": 3}').slow
    assert dict(pes) == {"sip0.cube2.pe1": 3.0, "sip1.cube4.pe0": 2.0, "sip1.cube5.pe0": 2.0}


def test_the_usual_pe_is_the_first_of_least_factor(small):
    assert small().usual_pe == "sip0.cube0.pe0"
    assert slow(small, '{"pe[0:2]": 2}').usual_pe == "sip0.cube0.pe2"
    assert slow(small, '{"pe[*]": 2}').usual_pe == "sip0.cube0.pe0"


PES = "PEs from sip0.cube0.pe0 to sip0.cube0.pe3; write one like pe0 or sip[*].cube[0].pe[*]"


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("{pe4: 2}", UnknownKeyError, f"small.yaml:3:8: $.slow.pe4: got 'pe4', needs {PES}"),
        ('{"pe[0:9]": 2}', UnknownKeyError, f"small.yaml:3:8: $.slow['pe[0:9]']: got 'pe[0:9]', needs {PES}"),
        ('{"pe[2:2]": 2}', UnknownKeyError, f"small.yaml:3:8: $.slow['pe[2:2]']: got 'pe[2:2]', needs {PES}"),
        ("{sip1.cube0.pe0: 2}", UnknownKeyError, f"$.slow['sip1.cube0.pe0']: got 'sip1.cube0.pe0', needs {PES}"),
        ("{sip0: 2}", UnknownKeyError, f"$.slow.sip0: got 'sip0', needs {PES}"),
        ("{pe: 2}", UnknownKeyError, f"$.slow.pe: got 'pe', needs {PES}"),
        ('{"": 2}', UnknownKeyError, f"$.slow['']: got '', needs {PES}"),
        ("{pe0.pe_dma: 2}", UnknownKeyError, f"$.slow['pe0.pe_dma']: got 'pe0.pe_dma', needs {PES}"),
        ("{gemm: 2}", UnknownKeyError, f"$.slow.gemm: got 'gemm', needs {PES}"),
        ("{pe0: 0.5}", WrongValueError, "small.yaml:3:8: $.slow.pe0: got 0.5, needs >= 1"),
        ("{pe0: 0}", WrongValueError, "$.slow.pe0: got 0, needs >= 1"),
        ("{pe0: -2}", WrongValueError, "$.slow.pe0: got -2, needs >= 1"),
        ("{pe0: 1001}", WrongValueError, "$.slow.pe0: got 1001, needs <= 1000"),
        ("{pe0: .nan}", TopologyError, "$.slow.pe0: got the number .nan, needs a finite one"),
        ("{pe0: twice}", WrongValueError, "$.slow.pe0: got 'twice', needs a number"),
        ("{pe0: true}", WrongValueError, "$.slow.pe0: got true, needs a number"),
        ("{pe0: {clock_ghz: 1}}", WrongValueError, "$.slow.pe0: got a mapping, needs a number"),
        ("pe0", WrongValueError, "$.slow: got 'pe0', needs a mapping"),
        (
            '{"pe[*]": 2, pe1: 3}',
            TopologyError,
            (
                "small.yaml:3:20: $.slow.pe1: got a second factor for sip0.cube0.pe1, which $.slow['pe[*]'] names too, "
                "needs one factor for each PE; name the PE in one key"
            ),
        ),
    ],
)
def test_what_is_no_slow_pe(small, text, kind, sentence):
    with pytest.raises(TopologyError) as caught:
        slow(small, text)
    assert type(caught.value) is kind
    assert str(caught.value).endswith(sentence)


def test_a_chip_without_pes_has_no_slow_one():
    text = "name: a\nwire_ps_per_mm: 7\nslow: {pe0: 2}\ncube:\n  nodes:\n    n: {kind: noc, impl: x.y}\n"
    with pytest.raises(UnknownKeyError) as caught:
        loads_topology(text, "a.yaml")
    needs = "needs pe_layout and pe_template"
    assert str(caught.value) == f"a.yaml:3:8: $.slow.pe0: got a slow PE on a chip without PEs, {needs}"


def test_a_digest_names_slow_pes_by_their_ids_and_factors(small):
    digests = {text: slow(small, text).digest for text in ("{}", "{pe0: 1}", "{pe0: 2}", "{pe0: 3}", "{pe1: 2}")}
    assert digests["{}"] == digests["{pe0: 1}"] == small().digest
    assert len(set(digests.values())) == 4
    assert slow(small, '{"pe[0:2]": 2}').digest == slow(small, "{pe1: 2.0, sip0.cube0.pe0: 2}").digest


@pytest.mark.parametrize(
    ("path", "slow_now"),
    [("$.slow.pe3", {"sip0.cube0.pe3": 2.0}), ("$.slow['sip[*].cube[*].pe[1]']", {"sip0.cube0.pe1": 2.0})],
)
def test_one_value_makes_a_pe_slow_in_a_file_without_slow_ones(small, path, slow_now):
    changed = with_values(small().source, {parse_path(path): "2"})
    assert dict(loads_topology(changed.text).slow) == slow_now
    assert small().source.text in changed.text.replace(changed.text.splitlines()[0] + "\n", "", 1)


def test_values_of_slow_pes_change_and_join(small):
    source = slow(small, "{pe1: 2}").source
    changed = with_values(source, {("slow", "pe1"): "1", ("slow", "pe[2:4]"): "1.25", ("slow", "pe0"): "3"})
    assert dict(loads_topology(changed.text).slow) == {
        "sip0.cube0.pe0": 3.0, "sip0.cube0.pe2": 1.25, "sip0.cube0.pe3": 1.25
    }  # fmt: skip


def test_no_other_mapping_is_added(small):
    for path in (("packets", "header_nbytes"), ("slow", 0), ("slow", "pe0", "x")):
        with pytest.raises(TopologyError, match="a place that the file does not have"):
            with_values(small().source, {path: "2"})
    assert isinstance(with_values(YamlSource("a", "{name: b}"), {("slow", "pe0"): "2"}).text, str)
