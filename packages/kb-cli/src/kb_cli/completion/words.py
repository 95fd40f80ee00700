"""The arguments and options of every command, and what each of them takes.

The table stands here because an import of the commands takes longer than a user waits for TAB. A test compares the
table with the commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple


class Kind(Enum):
    """What an argument or the value of an option is."""

    FLAG = auto()
    """No value."""
    TEXT = auto()
    """A text or number of which no list is known."""
    BENCHMARK = auto()
    CHIP = auto()
    CHIPS = auto()
    """Chips with commas between them."""
    SWEEP = auto()
    """A benchmark, or a sweep's file."""
    PARAMETER = auto()
    PARAMETERS = auto()
    """A parameter with values between commas."""
    PRODUCT = auto()
    """A size or the dtype of a product."""
    COLLECTIVE = auto()
    RUN = auto()
    CAPSULE = auto()
    SCRIPT = auto()
    FILE = auto()
    FOLDER = auto()


Value = Kind | tuple[str, ...]
"""A kind, or all values that there are."""


class CommandWords(NamedTuple):
    """The words of a command: the kinds of its arguments in their order, and its options.

    `rest` is the kind of all further arguments, None where there are none. With `ends_at_first`, options stand before
    the first argument alone.
    """

    arguments: tuple[Kind, ...]
    options: Mapping[str, Value]
    rest: Kind | None = None
    ends_at_first: bool = False


def _flags(*names: str) -> dict[str, Value]:
    return dict.fromkeys((*names, "--help", "-h"), Kind.FLAG)


_KEEP: Final = ("auto", "all", "none")
COLLECTIVES: Final = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
"""The collectives of `kb plan collective`."""
_DTYPES: Final = (
    "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
)  # fmt: skip
_LIMITS: Final[Mapping[str, Value]] = {"--max-hours": Kind.TEXT, "--watchdog": Kind.TEXT}

WORDS: Final[Mapping[str, CommandWords]] = {
    "compare": CommandWords((Kind.RUN, Kind.RUN), {"--fail-above": Kind.TEXT, **_flags("--json", "--blocks")}),
    "exec": CommandWords(
        (Kind.SCRIPT,),
        {
            "--topology": Kind.CHIP,
            "--issue": ("blocking", "scoreboard", "decoupled"),
            "--schedule": ("dynamic", "static"),
            "--autotune": ("all", "first"),
            "--pretend": ("cuda",),
            **_LIMITS,
            "--out": Kind.FOLDER,
            "--keep": _KEEP,
            **_flags(
                "--transfers", "--no-templates", "--lenient", "--sanitize", "--no-sanitize", "--sim-stats", "--json"
            ),
        },
        rest=Kind.FILE,
        ends_at_first=True,
    ),
    "list": CommandWords((), _flags("--json")),
    "new": CommandWords((Kind.SCRIPT,), _flags("--json")),
    "pack": CommandWords((Kind.RUN,), {"-o": Kind.FILE, **_flags("--data", "--json")}),
    "plan collective": CommandWords(
        (Kind.COLLECTIVE,),
        {
            "--shape": Kind.TEXT,
            "--nbytes": Kind.TEXT,
            "--dtype": _DTYPES,
            "--op": ("sum", "mean", "max", "min"),
            "--pes": Kind.TEXT,
            "--topology": Kind.CHIP,
            **_flags("--json"),
        },
    ),
    "plan gemm": CommandWords(
        (),
        {
            "-p": Kind.PRODUCT,
            "--tile": Kind.TEXT,
            "--pin": ("a", "b"),
            "--transpose": ("a", "b"),
            "--epilogue": Kind.TEXT,
            "--loop-order": Kind.TEXT,
            "--topology": Kind.CHIP,
            **_flags("--b-stream", "--json"),
        },
    ),
    "probe": CommandWords(
        (Kind.TEXT, Kind.TEXT),
        {
            "--nbytes": Kind.TEXT,
            "--flows": Kind.TEXT,
            "--op": ("read", "write", "send"),
            "--memories": Kind.TEXT,
            "--heatmap": Kind.FILE,
            "--topology": Kind.CHIP,
            **_flags("--all", "--json"),
        },
    ),
    "replay": CommandWords((Kind.CAPSULE,), {"--out": Kind.FOLDER, **_flags("--trust", "--json")}),
    "report": CommandWords((Kind.RUN,), {"-o": Kind.FILE, "--levers": Kind.TEXT, **_flags("--json")}),
    "run": CommandWords(
        (Kind.BENCHMARK,),
        {
            "--workload": Kind.BENCHMARK,
            "--topology": Kind.CHIP,
            "-p": Kind.PARAMETER,
            "--phase": ("prefill", "decode"),
            **dict.fromkeys(("--tokens", "--batch", "--context", "--layers", "--map", "--paged", "--op"), Kind.TEXT),
            "--dtype": ("f32", "f16", "bf16"),
            "--weights": ("same", "int8", "int4", "fp8"),
            "--shapes": Kind.FILE,
            "--seed": Kind.TEXT,
            "--out": Kind.FOLDER,
            "--keep": _KEEP,
            "--verify": ("auto", "full", "sample"),
            "--trace": Kind.FILE,
            "--exact": ("isolated", "events", "check"),
            "--levers": Kind.TEXT,
            **_LIMITS,
            **_flags("--list", "--params", "--no-verify", "--no-log", "--sanitize", "--no-sanitize", "--no-templates"),
            **_flags("--sim-stats", "--json"),
        },
    ),
    "runs": CommandWords(
        (Kind.FOLDER,), {"--keep": Kind.TEXT, "--older": Kind.TEXT, **_flags("--prune", "--dry-run", "--json")}
    ),
    "show": CommandWords(
        (Kind.RUN, Kind.TEXT),
        {"--pe": Kind.TEXT, "--number": Kind.TEXT, "--against": Kind.FILE, "-o": Kind.FILE, **_flags("--json")},
    ),
    "sweep": CommandWords(
        (Kind.SWEEP,),
        {
            "--topology": Kind.CHIPS,
            "-p": Kind.PARAMETERS,
            "--list": Kind.FILE,
            **_LIMITS,
            "--out": Kind.FOLDER,
            "-o": Kind.FILE,
            **dict.fromkeys(
                ("--set", "--where", "--cost", "--within", "--over", "--best", "--random", "--random-seed"), Kind.TEXT
            ),
            **dict.fromkeys(("--seed", "--jobs", "--scheduler", "--scheduler-wait", "--rows"), Kind.TEXT),
            **_flags("--verify", "--again", "--json"),
        },
    ),
    "topology check": CommandWords((Kind.CHIP,), _flags("--json")),
    "topology show": CommandWords(
        (Kind.CHIP,),
        {
            "--run": Kind.RUN,
            "--view": ("system", "sip", "cube", "pe"),
            "--part": Kind.TEXT,
            "--out": Kind.FILE,
            "-o": Kind.FILE,
            **_flags("--json"),
        },
    ),
    "trace": CommandWords(
        (Kind.RUN,),
        {
            "-o": Kind.FILE,
            "--pe": Kind.TEXT,
            "--from": Kind.TEXT,
            "--to": Kind.TEXT,
            "--unit": ("ns", "ps"),
            **_flags("--open"),
        },
    ),
    "verify": CommandWords((Kind.RUN,), _flags("--json", "--debug", "--sanitize")),
    "web": CommandWords((Kind.FOLDER,), {"--sweeps": Kind.FOLDER, "--port": Kind.TEXT, **_flags("--no-open")}),
    "whatif": CommandWords((Kind.RUN,), {"--set": Kind.TEXT, "-o": Kind.FILE, **_flags("--json")}),
}
"""By command; a command of a group has both names."""
