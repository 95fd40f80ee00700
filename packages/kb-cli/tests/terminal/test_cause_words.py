"""The words for reasons and edges: every one of a log has some."""

from kb_cli.terminal.cause_words import REASONS, VIA, via_text
from kb_cli.web.stall_tables import BEFORE, MEMORY, QUEUE_FULL, SERVICE, SHARED
from kb_dataexec.analysis.critical_path.events import VIA as EDGES
from kb_messages import WaitReason


def test_every_reason_and_every_edge_has_words() -> None:
    assert set(REASONS) == {each.name.lower() for each in WaitReason} | {SERVICE, QUEUE_FULL, MEMORY, SHARED, *BEFORE}
    assert set(VIA) == set(EDGES) - {""}
    assert via_text("throughput") == "the block being busy"
    assert via_text("of another version") == "of another version"
