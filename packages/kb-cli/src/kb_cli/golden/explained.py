"""Why a run takes another time than the golden one: what `kb compare` says of the two, as text."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from kb_cli.capsule.unpack import unpack
from kb_cli.compare.comparison import compare
from kb_cli.compare.side import read_side
from kb_cli.report.compare_tables import comparison_parts
from kb_cli.terminal.output import as_text
from kb_messages import KbError


def explained(capsule: Path, folder: Path) -> str:
    """The comparison of the run in *folder* with that of *capsule*, or the sentence that says why there is none."""
    try:
        with TemporaryDirectory(prefix="kb-golden-") as place:
            unpack(capsule, Path(place))
            return as_text(*comparison_parts(compare(read_side(Path(place)), read_side(folder))))
    except KbError as error:
        return f"no explanation: {error}"
    except OSError as error:
        return f"no explanation: {capsule}: got {error.strerror}, needs the capsule that --kb-update writes"
