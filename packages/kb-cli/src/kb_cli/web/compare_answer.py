"""What changed between two runs, as `kb compare` says it."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.compare.comparison import RunComparison, compare
from kb_cli.compare.names import block_name
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest


class WebComparison(Struct, frozen=True, kw_only=True):
    """`found`, the words for its blocks, and whether blocks alone are compared, because the benchmarks differ."""

    found: RunComparison
    names: dict[str, str]
    blocks_alone: bool


def comparison(asked: WebRequest) -> WebAnswer:
    """The run that `run` names against the one that `with` names, which was before."""
    before, after = asked.run_of("with").side, asked.run.side
    blocks_alone = before.run.benchmark.name != after.run.benchmark.name
    found = compare(before, after, blocks_alone)
    blocks = {each.block for each in found.blocks} | {each.block for each in found.rows}
    blocks |= {block for pe in found.pes for block in pe.change_ps}
    names = {block: block_name(block) for block in sorted(blocks)}
    return json_answer(WebComparison(found=found, names=names, blocks_alone=blocks_alone))
