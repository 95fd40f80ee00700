"""The gallery: commands on bundled kernels and chips, with the pictures and reports that they make."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from site_places import ROOT
from site_screens import SCREENS, screen_html, take

KB = str(Path(sys.executable).with_name("kb"))
_RUN_FOLDER = re.compile(r"kb-runs/[\w.-]+-[0-9a-f]{12}")
_SWEEP_FOLDER = re.compile(r"kb-sweeps/[\w.-]+-[0-9a-f]{12}")


class Shown(NamedTuple):
    """Commands in order, and files that they write: pictures to show, pages to open. RUN is the last run's folder.

    `prints` is how many paragraphs of the last command's output are shown, from the end.
    """

    title: str
    text: str
    commands: list[str]
    pictures: dict[str, str]
    pages: Mapping[str, str] = MappingProxyType({})
    prints: int = 0


def _chip(name: str, view: str, text: str) -> Shown:
    file = f"{name.replace('/', '-')}.svg"
    return Shown(name, text, [f"kb topology show {name} --view {view} -o {file}"], {file: f"{name}, view {view}"})


def _report(title: str, text: str, command: str, file: str, view: str = "cube") -> Shown:
    chip = f"{file}-chip.svg"
    commands = [command, f"kb report RUN -o {file}.html", f"kb topology show --run RUN --view {view} -o {chip}"]
    return Shown(title, text, commands, {chip: "the chip, coloured by use"}, {f"{file}.html": "the report"})


CHAPTERS: dict[str, list[Shown]] = {
    "Chips": [
        _chip("one_pe", "pe", "The inside of a PE: commands come from PE_CPU, and tiles go from block to block."),
        _chip("one_cube", "cube", "Eight PEs, two halves of an XBAR, eight slices of HBM."),
        _chip("one_sip", "sip", "Sixteen cubes in a mesh, and an IO chiplet that leads to the host."),
        _chip("four_sip", "system", "Four SIPs, 512 PEs."),
    ],
    "Reports": [
        _report(
            "A product",
            "The GEMM arrays bound it. The report opens as one file without a network.",
            "kb run gemm -p M=512 -p N=1024 -p K=1024",
            "gemm",
        ),
        _report(
            "A token is decoded",
            "Each weight is read once, so HBM bounds it.",
            "kb run decode_gemv -p N=2048 -p K=2048",
            "decode",
        ),
        _report(
            "Attention",
            "Causal attention in one kernel, as Llama-3 has it, with fewer heads.",
            "kb run attention -p tokens=256 -p heads=8 -p kv_heads=2",
            "attention",
        ),
        _report(
            "Sixteen cubes",
            "A product whose operands lie over all cubes of a mesh. The links in the middle get hot.",
            "kb run gemm --topology one_sip --levers none",
            "sixteen",
            "sip",
        ),
    ],
    "Questions": [
        Shown(
            "What would twice the bandwidth of HBM gain?",
            "The run is repeated on its chip with another value. What HBM gains here, the links lose.",
            [
                "kb run decode_gemv -p N=2048 -p K=2048",
                "kb whatif RUN --set '$.cube.nodes.hbm.bw_gbs=204.8' -o whatif.svg",
            ],
            {"whatif.svg": "the latency before, measured and at best, and the blocks whose time changed"},
        ),
        Shown(
            "What does halving the TCM do?",
            "A sweep over the sizes of the tile buffers. [Sweeps](sweeps.md) discusses the answer.",
            ["kb sweep docs/sweeps/tcm.yaml --rows 6"],
            {"SWEEP/axes.svg": "latency along each axis"},
            {"SWEEP/report.html": "the report of the sweep"},
        ),
        Shown(
            "Which bandwidth, and which tile?",
            "Two axes at once: a map of the latency, and the Pareto front.",
            [
                (
                    "kb sweep gemm -p M=512 -p N=512 -p K=512 -p tile=32x32x64,64x64x64,128x128x64,128x128x128 "
                    "--set '$.cube.nodes.hbm.bw_gbs=25.6,51.2,102.4,204.8,409.6'"
                )
            ],
            {"SWEEP/map.svg": "latency over both axes", "SWEEP/front.svg": "latency against bandwidth"},
            {"SWEEP/report.html": "the report of the sweep"},
        ),
        Shown(
            "How far is a way through the chip?",
            "An idle transfer from a PE to the memory of the farthest cube, hop by hop.",
            ["kb probe pe0 sip0.cube15.hbm7 --topology one_sip"],
            {},
            prints=9,
        ),
    ],
    "Timelines": [
        Shown(
            "A trace for Perfetto",
            "Every block of every PE, over time. The file opens in any copy of Perfetto's page.",
            ["kb run softmax -p M=64 -p N=512", "kb trace RUN -o softmax.pftrace"],
            {},
            {"softmax.pftrace": "the trace"},
        ),
    ],
}


def gallery_page(made: dict[str, str] | None = None, has_screens: bool = False) -> str:
    """The page of the gallery. *made* has the end of each command's output; without it nothing was run.

    *has_screens* says that the pictures of `kb web` were taken.
    """
    parts = [_TEXT if made is not None else f"{_TEXT}\n\n{_NOT_MADE}"]
    for chapter, entries in CHAPTERS.items():
        parts.append(f"## {chapter}")
        for number, each in enumerate(entries):
            parts.append(_entry(each, f"{chapter.lower()}-{number}", made))
    screens = [screen_html(screen, SCREENS_FOLDER) for screen in SCREENS] if has_screens else [NO_SCREENS]
    return "\n\n".join([*parts, _PAGE, *screens]) + "\n"


def _entry(entry: Shown, folder: str, made: dict[str, str] | None) -> str:
    commands = "\n".join((made or {}).get(each, each) for each in _keys(entry, folder))
    shown = [f"### {entry.title}", entry.text, f"```bash\n{commands if made else chr(10).join(entry.commands)}\n```"]
    if made is not None:
        printed = made[f"{folder}/prints"]
        shown += [f"```text\n{printed}\n```"] if printed else []
        shown += [
            f'<a href="made/{folder}/{Path(file).name}"><img class="made" src="made/{folder}/{Path(file).name}" '
            f'alt="{entry.title}: {caption}"></a>'
            for file, caption in entry.pictures.items()
        ]
        shown += [
            f'<p><a href="made/{folder}/{Path(file).name}">Open {text}</a></p>' for file, text in entry.pages.items()
        ]
    return "\n\n".join(shown)


def _keys(entry: Shown, folder: str) -> list[str]:
    return [f"{folder}/{number}" for number in range(len(entry.commands))]


def make(out: Path, work: Path, browser: str | None) -> dict[str, str]:
    """Run all commands of the gallery in the empty folder *work*, and put what they make below *out*.

    With the program *browser* the pictures of `kb web` are taken, too, of the first run. Gives the commands as they
    ran, and what of their output is shown. Raises CalledProcessError for one that fails.
    """
    for name in ("docs", "topologies", "benchmarks"):
        (work / name).symlink_to(ROOT / name)
    made: dict[str, str] = {}
    for chapter, entries in CHAPTERS.items():
        for number, entry in enumerate(entries):
            folder = f"{chapter.lower()}-{number}"
            made |= _make(entry, folder, out / folder, work)
    if browser is not None:
        first = next(found for text in made.values() if (found := _RUN_FOLDER.search(text)))
        take(browser, work / first[0], out / "web")
    return made


def _make(entry: Shown, folder: str, out: Path, work: Path) -> dict[str, str]:
    run, sweep, printed, found = "RUN", "SWEEP", "", {}
    for key, command in zip(_keys(entry, folder), entry.commands, strict=True):
        found[key] = command.replace("RUN", run)
        done = subprocess.run(
            found[key].replace("kb ", f"{KB} ", 1), shell=True, cwd=work, capture_output=True, text=True, check=True
        )
        printed = done.stdout.strip()
        run = (_RUN_FOLDER.findall(printed) or [run])[-1]
        sweep = (_SWEEP_FOLDER.findall(printed) or [sweep])[-1]
    out.mkdir(parents=True)
    for file in (*entry.pictures, *entry.pages):
        shutil.copy(work / file.replace("SWEEP", sweep), out / Path(file).name)
    paragraphs = printed.split("\n\n")
    return {**found, f"{folder}/prints": "\n\n".join(paragraphs[-entry.prints :]) if entry.prints else ""}


_TEXT = """\
# Gallery

All pictures and reports here were made by the commands beside them, when this site was built. Every chip, kernel and
sweep comes with kb."""
_NOT_MADE = "This copy was built without running the commands. `nox -s site` builds one with all pictures."
NO_SCREENS = "This copy was built without a browser, so there is no picture of `kb web` here."
SCREENS_FOLDER = "made/web/"
_PAGE = """\
### The page of `kb web`

The same runs in the browser: every block over time, why a tile waited, what each kernel line cost
([how to use it](web.md))."""
