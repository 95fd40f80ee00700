"""The sentence that names what bounds a run, for made-up figures."""

import pytest

from kb_cli.run.bounded_by import bounded_by
from kb_cli.run.metrics import Use


def use(mean: float, busiest: float | None = None, node: str = "n", count: int = 8) -> Use:
    return Use(count=count, mean=mean, busiest=mean if busiest is None else busiest, node=node)


IDLE = {"pe_dma_write": use(0.01, node="pe0.pe_dma"), "pe_fetch_store": use(0.04, node="pe0.pe_fetch_store")}


def test_dma_channels_bound_where_no_memory_is_as_busy() -> None:
    uses = {**IDLE, "pe_dma_read": use(0.999, 1.0, "pe0.pe_dma"), "hbm": use(0.3, 0.61, "hbm3")}
    assert bounded_by(uses, None) == (
        "Bound by the DMA read channels: busy 99.9 % of the time on average; HBM slice hbm3 is next at 61.0 %."
    )


def test_a_slice_about_as_busy_is_what_the_channels_wait_for() -> None:
    uses = {**IDLE, "pe_dma_read": use(0.9, 0.999, "pe0.pe_dma"), "hbm": use(0.22, 0.98, "hbm0"), "pe_gemm": use(0.2)}
    assert bounded_by(uses, None) == (
        "Bound by HBM slice hbm0: busy 98.0 % of the time (22.0 % on average over 8); "
        "the DMA read channels in front of it are held 90.0 % of the time on average; block n is next at 20.0 %."
    )


def test_slices_that_are_evenly_busy_are_named_together() -> None:
    uses = {"pe_dma_read": use(0.71, node="pe0.pe_dma"), "hbm": use(0.68, 0.69, "hbm0")}
    assert bounded_by(uses, None) == (
        "Bound by the HBM slices: busy 68.0 % of the time on average; "
        "the DMA read channels in front of them are held 71.0 % of the time on average."
    )


def test_a_link_that_is_busier_than_the_slice_is_named() -> None:
    uses = {"pe_dma_read": use(0.99), "hbm": use(0.3, 0.5, "hbm0"), "link": use(0.1, 0.97, "xbar0 -> bridge", 68)}
    assert bounded_by(uses, None).startswith(
        "Bound by link xbar0 -> bridge: busy 97.0 % of the time (10.0 % on average"
    )


def test_a_slice_comes_before_the_link_that_carries_the_same_bytes() -> None:
    uses = {"link": use(0.1, 0.981, "a -> b"), "hbm": use(0.2, 0.98, "hbm0")}
    assert bounded_by(uses, None) == "Bound by HBM slice hbm0: busy 98.0 % of the time (20.0 % on average over 8)."


def test_gemm_arrays_bound_a_compute_heavy_run() -> None:
    uses = {**IDLE, "pe_gemm": use(0.95, 0.97, "pe1.pe_gemm"), "pe_dma_read": use(0.5, 0.6, "pe0.pe_dma")}
    assert bounded_by(uses, None) == (
        "Bound by the GEMM arrays: busy 95.0 % of the time on average; "
        "the DMA read channel of pe0.pe_dma is next at 60.0 %."
    )


def test_one_busy_block_among_idle_ones_is_named() -> None:
    sentence = bounded_by({"pe_gemm": use(0.12, 0.96, "pe3.pe_gemm")}, None)
    assert sentence == "Bound by the GEMM arrays: pe3.pe_gemm busy 96.0 % of the time (12.0 % on average over 8)."


def test_the_only_block_of_its_kind_has_no_average() -> None:
    assert bounded_by({"hbm": use(0.9, node="hbm0", count=1)}, None) == (
        "Bound by HBM slice hbm0: busy 90.0 % of the time."
    )


def test_nothing_busy_is_latency_with_the_longest_wait() -> None:
    uses = {"pe_gemm": use(0.2), "pe_dma_read": use(0.3, 0.45, "pe0.pe_dma")}
    assert bounded_by(uses, {"channel": 25, "register_file": 75, "queue_full": 0}) == (
        "Bound by latency: no block is busy 60.0 % of the time, the DMA read channel of pe0.pe_dma most, at 45.0 %; "
        "tiles waited longest for room in the register file (75.0 % of all waits)."
    )


@pytest.mark.parametrize("waits", [None, {}, {"channel": 0}])
def test_latency_without_waits_says_no_more(waits: dict[str, int] | None) -> None:
    assert bounded_by({"pe_gemm": use(0.2, node="g", count=1)}, waits) == (
        "Bound by latency: no block is busy 60.0 % of the time, block g most, at 20.0 %."
    )


def test_nothing_measured_is_said() -> None:
    assert bounded_by({}, None) == "Nothing was measured."
