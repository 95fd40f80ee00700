"""The sections of the site, and the page that opens each of them."""

from __future__ import annotations

from typing import NamedTuple

from site_links import relative


class Section(NamedTuple):
    """A section: its title, a sentence, and (page, what the page answers) in order."""

    title: str
    text: str
    pages: list[tuple[str, str]]


SECTIONS = {
    "start/index.md": Section(
        "Start",
        "From a first run to a question that is answered.",
        [
            (
                "tutorial.md",
                "ten minutes: a kernel that decodes a token is run, explained, and made faster by a change of the chip",
            ),
            ("notebooks/first-kernel.md", "a notebook: a kernel is written, run, checked, compared, and made faster"),
            ("first-steps.md", "every part of the report, run folders, many shapes, a chip and a kernel of your own"),
            ("glossary.md", "the words of the reports and of the code"),
        ],
    ),
    "guides/index.md": Section(
        "How-to",
        "One page for one task.",
        [
            ("write-kernels.md", "how do I write a kernel that is right and fast?"),
            ("messages.md", "how do PEs wait for each other, and send each other values?"),
            ("streams.md", "how do launches and transfers overlap?"),
            ("python.md", "how do I run a kernel from a script, a notebook or a test?"),
            ("collectives.md", "how do PEs sum, gather and exchange, and which algorithm is fastest?"),
            ("triton.md", "how do I run Triton kernels that I have?"),
            ("triton-features.md", "which parts of Triton run, and which are refused?"),
            ("kernels.md", "which kernels come with kb, and what do they reach?"),
            ("models.md", "what does a whole model take on a chip, and what bounds it?"),
            ("networks.md", "how do I run a network that another tool wrote: a table of layers, or an ONNX model?"),
            ("memory.md", "what do HBM, SRAM and TCM cost a PE, and what do rows and banks cost a kernel?"),
            ("sweeps.md", "which chip is best, out of thousands?"),
            ("golden-times.md", "how does a test fail when a kernel got slower?"),
            ("web.md", "how do I look at runs in the browser?"),
        ],
    ),
    "reference/index.md": Section(
        "Reference",
        "Every command, every field of a chip, every function. These pages are made from the code.",
        [
            ("reference/commands/index.md", "every command, with each of its options"),
            ("reference/topology-file.md", "every part of the YAML file of a chip, with each of its fields"),
            (
                "reference/blocks.md",
                "every block of a chip: its attributes, units, defaults, and what its time is made of",
            ),
            ("reference/chips.md", "the chips that come with kb"),
            ("reference/benchmarks.md", "the benchmarks that come with kb, with each of their parameters"),
            ("tl.md", "every function that a kernel calls, with an example and what it costs"),
            ("reference/python/index.md", "every public class and function of the packages"),
            ("reference/log-format.md", "every file and column of a log on disk"),
            ("trust.md", "what a result, a run folder and the word `ok` mean"),
        ],
    ),
    "packages/index.md": Section(
        "Packages",
        "kernbench is nine packages. Some of them are of use alone.",
        [
            ("packages/kb-cli.md", "the command `kb`, and kernels from Python"),
            ("packages/kb-engine.md", "clock, blocks, log, the kernel language, the host"),
            ("packages/kb-components.md", "the built-in blocks of a chip"),
            ("packages/kb-topology.md", "YAML to a checked chip: graph, routes, addresses, pictures"),
            ("packages/kb-plans.md", "tile plans, of use alone"),
            ("packages/kb-dataexec.md", "executes and verifies the log of a simulation, of use alone"),
            ("packages/kb-messages.md", "what packages tell each other: commands, plans, records, addresses"),
            ("packages/kb-triton.md", "runs unmodified Triton kernels"),
            ("packages/kb-models.md", "whole models: ops by layout, builders, configurations"),
        ],
    ),
    "background/index.md": Section(
        "Background",
        "Why kernbench is as it is, where it differs from hardware, and how it is held to measurements.",
        [
            ("DEVIATIONS.md", "where does the model differ from hardware, and by how much?"),
            ("measured/validation.md", "how close is it to measurements?"),
            ("measured/speed.md", "how fast is the simulator?"),
            ("design/index.md", "why is it built so?"),
            ("rooms.md", "how is the code divided, and which way does a launch go through it?"),
            ("changes/index.md", "what changed?"),
            ("repository.md", "what is where in the repository, and how do I run its tests?"),
            ("CONTRIBUTING.md", "how do I run one of the checks, and what belongs to a change?"),
            ("site.md", "how is this site made, and how do I add a page?"),
        ],
    ),
}
"""The sections by the page that opens each. The gallery is a page of its own beside them."""


def section_pages(titles: dict[str, str]) -> dict[str, str]:
    """The pages that open the sections, with the *titles* of pages."""
    return {place: _page(place, section, titles) for place, section in SECTIONS.items()}


def _page(place: str, section: Section, titles: dict[str, str]) -> str:
    rows = [f"| [{titles[page]}]({relative(page, place)}) | {text} |" for page, text in section.pages]
    table = "\n".join(["| page | answers |", "| --- | --- |", *rows])
    return f"# {section.title}\n\n{section.text}\n\n{table}\n\n{toctree([page for page, _ in section.pages], place)}"


def toctree(pages: list[str], place: str) -> str:
    """The part of the page *place* that puts *pages* below it, unseen in the text."""
    listed = "\n".join(relative(page, place).removesuffix(".md") for page in pages)
    return f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def root_toctree() -> str:
    """The part of the first page that makes the sections of the site."""
    return toctree([*list(SECTIONS)[:3], "gallery.md", *list(SECTIONS)[3:]], "index.md")
