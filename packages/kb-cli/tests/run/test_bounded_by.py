"""The sentence that names what bounds a run, for made-up figures."""

import pytest

from kb_cli.run.observe.bounded_by import bounded_by
from kb_cli.run.observe.metrics import Use
from kb_dataexec.analysis import PathShare


def share(block: str, what: str, ps: int, line: str = "k.py:4", line_ps: int | None = None) -> PathShare:
    """Of a run of 1000 ps."""
    found = ps if line_ps is None else line_ps
    return PathShare(block=block, what=what, ps=ps, share=ps / 1000, line=line, line_ps=found)


def test_the_largest_share_is_named_with_its_line_and_the_next_one() -> None:
    shares = [share("hbm", "bytes", 610, line_ps=400), share("pe_gemm", "steps", 200), share("pe_cpu", "issue", 190)]
    assert bounded_by(shares, {}) == (
        "HBM's bytes are 61.0 % of the time, mostly of k.py:4; the GEMM arrays' steps come next with 20.0 %."
    )


def test_a_line_that_has_all_of_it_and_one_that_has_little() -> None:
    assert bounded_by([share("pe_gemm", "fill_drain", 900), share("hbm", "latency", 100)], {}) == (
        "Filling and draining the GEMM arrays is 90.0 % of the time, all of k.py:4; "
        "HBM's latency comes next with 10.0 %."
    )
    assert bounded_by([share("pe_math", "service", 1000, line_ps=500)], {}) == (
        "The math units' work is 100.0 % of the time, most at k.py:4 (50.0 % of it)."
    )


@pytest.mark.parametrize(
    ("shares", "sentences"),
    [
        pytest.param(
            [share("io_cpu", "forward", 1000, line="")],
            "Launching the kernels is 100.0 % of the time.",
            id="work of no line names none",
        ),
        pytest.param(
            [share("pe_cpu", "startup", 790, line=""), share("pe_cpu", "issue", 210)],
            "Starting the kernels is 79.0 % of the time; issuing commands comes next with 21.0 %.",
            id="starting a kernel is not issuing commands",
        ),
        pytest.param(
            [share("pe_queue", "credit", 560), share("pe_queue", "doorbell", 440)],
            (
                "Sending credits of messages is 56.0 % of the time, all of k.py:4; "
                "waking kernels by doorbells comes next with 44.0 %."
            ),
            id="credits are not doorbells",
        ),
        pytest.param(
            [share("codec", "unpack", 1000, line="")],
            "Codec: unpack is 100.0 % of the time.",
            id="a block of another author has its own names",
        ),
    ],
)
def test_the_sentences(shares: list[PathShare], sentences: str) -> None:
    assert bounded_by(shares, {}) == sentences


def test_a_block_shown_as_zero_does_not_come_next() -> None:
    big = PathShare(block="pe_gemm", what="gemm", ps=9999, share=0.9999, line="", line_ps=9999)
    small = PathShare(block="pe_cpu", what="issue", ps=1, share=0.0001, line="", line_ps=1)
    assert "next" not in bounded_by([big, small], {})


def test_launches_and_data_on_links_have_sentences_of_their_own() -> None:
    launch, data = (bounded_by([share("links", "request", 1000, line=line)], {}) for line in ("", "k.py:4"))
    assert launch == "The launches' way over the links is 100.0 % of the time."
    assert data == "The way over the links is 100.0 % of the time, all of k.py:4."


def test_parts_of_one_cost_do_not_come_next() -> None:
    """Both rows are the math units' work."""
    shares = [share("pe_math", "exp", 500), share("pe_math", "max", 300), share("pe_cpu", "issue", 200)]
    assert "; issuing commands comes next with 20.0 %." in bounded_by(shares, {})


def test_a_run_without_time_says_so() -> None:
    assert bounded_by([], {}) == bounded_by([share("pe_cpu", "issue", 0)], {}) == "The run took no time."


def use(mean: float) -> Use:
    return Use(count=8, mean=mean, busiest=1.0, node="n")


def test_without_a_log_the_busiest_blocks_are_named_and_no_cost() -> None:
    assert bounded_by(None, {"pe_dma_read": use(0.3), "pe_gemm": use(0.95), "link": use(0.4)}) == (
        "The GEMM arrays were busiest, 95.0 % of the time on average; the cost of that is not recorded."
    )
    assert bounded_by(None, {"codec": use(0.5)}).startswith("The codec blocks were busiest, 50.0 % of the time")
    assert bounded_by(None, {}) == "Nothing was measured."
