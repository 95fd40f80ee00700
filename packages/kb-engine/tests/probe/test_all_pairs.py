"""Every pair of a PE and a memory of the toy chip, against single probes."""

import numpy as np

from kb_engine.probe import NO_PATH, probe, probe_all

FOUR_PES = (("pe_layout: {count: 1}", "pe_layout: {count: 4}"),)
SLOW_LINK = ('to: "hbm[*]", bw_gbs: 100', 'to: "hbm[*]", bw_gbs: 25')
TWO_SLICES = ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2")


def test_a_matrix_holds_the_latencies_of_single_probes(toy):
    chip = toy(*FOUR_PES, TWO_SLICES, SLOW_LINK)
    matrix = probe_all(chip, 512)
    single = [[probe(chip, src, dst, 512).latency_ps for dst in matrix.memories] for src in matrix.sources]
    assert (len(matrix.sources), len(matrix.memories)) == (4, 2)
    assert matrix.latency_ps.tolist() == single
    assert matrix.bandwidth_gbs.tolist() == [[512 * 1000 / ps for ps in row] for row in single]


def test_a_matrix_says_where_there_is_no_path(toy):
    matrix = probe_all(toy(TWO_SLICES, ('to: "hbm[*]"', 'to: "hbm[0]"')), 64)
    assert matrix.latency_ps.tolist() == [[32000 + 64 * 20, NO_PATH]]
    assert np.isnan(matrix.bandwidth_gbs).tolist() == [[False, True]]


def test_progress_counts_searches(toy):
    seen = []
    probe_all(toy(*FOUR_PES), 64, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 5) for number in range(1, 6)]
