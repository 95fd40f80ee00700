"""The views of where the time went, for rows by hand."""

from kb_dataexec.analysis import (
    BlockShare,
    LaunchWhere,
    PathShare,
    PeWhere,
    Where,
    WhereRow,
    block_shares,
    line_shares,
    path_shares,
    pe_shares,
    total_ps,
)


def row(line: str, block: str, what: str, ps: int, via: str = "data") -> WhereRow:
    return WhereRow(line=line, block=block, what=what, via=via, ps=ps, segments=1)


FIRST = [row("k.py:2", "hbm", "bytes", 50), row("k.py:3", "hbm", "bytes", 10), row("k.py:3", "pe_gemm", "steps", 40)]
SECOND = [row("k.py:3", "pe_gemm", "steps", 30, "throughput"), row("", "host", "call", 70)]
WHERE = Where(
    launches=[
        LaunchWhere(
            launch=0,
            start_ps=1000,
            kernels_start_ps=1010,
            kernels_end_ps=1090,
            end_ps=1100,
            rows=FIRST,
            pes=[
                PeWhere(pes=["pe0", "pe2"], start_ps=1000, end_ps=1100, rows=[row("k.py:2", "hbm", "bytes", 100)]),
                PeWhere(pes=["pe1"], start_ps=1000, end_ps=1100, rows=FIRST),
            ],
            busy={"hbm": 90, "pe_gemm": 160},
            hidden={"hbm": 30, "pe_gemm": 120},
            ties=0,
        ),
        LaunchWhere(
            launch=1,
            start_ps=2000,
            kernels_start_ps=2000,
            kernels_end_ps=2030,
            end_ps=2100,
            rows=SECOND,
            pes=[PeWhere(pes=["pe0", "pe1"], start_ps=2000, end_ps=2100, rows=SECOND)],
            busy={"pe_gemm": 30, "pe_math": 5},
            hidden={"pe_math": 5},
            ties=1,
        ),
    ],
    missing=[],
)


def test_the_path_by_block_adds_up_over_launches_and_names_the_dearest_line() -> None:
    """GEMM has 40 + 30 of 200 ps, whatever the edges; HBM 60, of which line 2 has 50."""
    assert path_shares(WHERE) == [
        PathShare(block="host", what="call", ps=70, share=0.35, line="", line_ps=70),
        PathShare(block="pe_gemm", what="steps", ps=70, share=0.35, line="k.py:3", line_ps=70),
        PathShare(block="hbm", what="bytes", ps=60, share=0.3, line="k.py:2", line_ps=50),
    ]
    assert sum(each.ps for each in path_shares(WHERE)) == total_ps(WHERE) == 200


def test_lines_have_their_blocks_the_dearest_first() -> None:
    found = [(each.line, each.ps, each.share, list(each.blocks.items())) for each in line_shares(WHERE)]
    assert found == [
        ("k.py:3", 80, 0.4, [("pe_gemm", 70), ("hbm", 10)]),
        ("", 70, 0.35, [("host", 70)]),
        ("k.py:2", 50, 0.25, [("hbm", 50)]),
    ]


def test_blocks_tell_hidden_work_apart() -> None:
    """GEMM is 40 ps on the own path of pe1 in the first launch, and 30 on those of pe0 and pe1 in the second: 100.

    HBM is on the own paths for longer than it worked, because PEs wait for others at a memory: nothing is hidden.
    """
    assert block_shares(WHERE) == [
        BlockShare(block="pe_gemm", path_ps=70, share=0.35, busy_ps=190, hidden_ps=90),
        BlockShare(block="host", path_ps=70, share=0.35, busy_ps=0, hidden_ps=0),
        BlockShare(block="hbm", path_ps=60, share=0.3, busy_ps=90, hidden_ps=0),
        BlockShare(block="pe_math", path_ps=0, share=0.0, busy_ps=5, hidden_ps=5),
    ]


def test_pes_are_alike_only_where_all_their_launches_are() -> None:
    """pe0 and pe2 saw the same first launch, but pe2 had no part in the second."""
    found = {tuple(each.pes): [(share.block, share.ps) for share in each.shares] for each in pe_shares(WHERE)}
    assert found == {
        ("pe0",): [("hbm", 100), ("host", 70), ("pe_gemm", 30)],
        ("pe2",): [("hbm", 100)],
        ("pe1",): [("host", 70), ("pe_gemm", 70), ("hbm", 60)],
    }


def test_a_run_without_time_has_no_shares_to_divide_by() -> None:
    empty = Where(launches=[], missing=[])
    assert (path_shares(empty), line_shares(empty), block_shares(empty), total_ps(empty)) == ([], [], [], 0)
    still = Where(
        launches=[
            LaunchWhere(
                launch=0,
                start_ps=5,
                kernels_start_ps=5,
                kernels_end_ps=5,
                end_ps=5,
                rows=[row("k.py:1", "pe_cpu", "issue", 0)],
                pes=[],
                busy={},
                hidden={},
                ties=0,
            )
        ],
        missing=[],
    )
    assert path_shares(still)[0].share == 0.0
