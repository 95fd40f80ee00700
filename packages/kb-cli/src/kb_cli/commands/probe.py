"""`kb probe`: measures a transfer between two nodes hop by hop, or the reads of every memory by every PE."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.benchmark import bundled
from kb_cli.report.data.probe import probe_result
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.escape import file_stem
from kb_cli.terminal.output import emit_json, emit_tables, progress_bar
from kb_cli.terminal.output_file import check_ending, made_folder, refuse_overwriting
from kb_engine.probe import Operation, ProbeError, probe, probe_all
from kb_messages import MemorySpace, int_of
from kb_topology import Topology, load_topology, parse_nbytes

_OPERATIONS = [each.value for each in Operation]
_SPACES = MemorySpace.HBM, MemorySpace.SRAM
"""The memories that `--all` reads by default."""


@click.command("probe", cls=CheckedCommand)
@click.argument("src", required=False)
@click.argument("dst", required=False)
@click.option("--nbytes", default="4096", show_default=True, help="Bytes to move, e.g. 64, '4 KiB' or 1MiB.")
@click.option("--flows", default=1, show_default=True, help="The number of transfers at once. A DMA moves one each "
    "way, so further flows come from the DMAs behind SRC.",
)  # fmt: skip
@click.option(
    "--op", type=click.Choice(_OPERATIONS), help="By default a DMA reads a memory, and other nodes send messages."
)
@click.option("--all", "everything", is_flag=True, help="Every PE's reads of every memory, each alone.")
@click.option(
    "--memories", help="With --all, the memories to read: some of hbm, sram and tcm, e.g. 'hbm,tcm' [default: hbm,sram]"
)
@click.option(
    "--heatmap",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
    help="With --all, where the picture goes; by default below kb-runs.",
)
@click.option("--topology", default="one_cube", show_default=True, help="A bundled chip's name, or a YAML file.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(
    src: str | None,
    dst: str | None,
    nbytes: str,
    flows: int,
    op: str | None,
    everything: bool,
    memories: str | None,
    heatmap: Path | None,
    topology: str,
    as_json: bool,
) -> None:
    """Measure a transfer from SRC to DST on an idle chip: its route, latency hop by hop, bandwidth and bottleneck.

    SRC and DST are nodes such as sip0.cube0.hbm3 or host; a PE stands for its DMA or its TCM. Cube 0 of SIP 0 need not
    be named: pe0, hbm3. The latency leaves out the time in which a DMA sets the transfer up.
    """
    chip_file = bundled.find("topologies", topology)
    chip = load_topology(chip_file)
    size = parse_nbytes(nbytes if (given := int_of(nbytes)) is None else given)
    if size is None:
        raise ProbeError("--nbytes", repr(nbytes), "a size such as 64, 4 KiB or 1 MiB")
    if everything:
        _refuse_with_all(src, flows, op)
        spaces = _spaces(memories)
        picture = heatmap or _picture(chip.name, size, spaces)
        refuse_overwriting("--heatmap", picture, chip_file)
        check_ending("--heatmap", picture, ".svg")
        with made_folder("--heatmap", picture.parent):
            _probe_all(chip, size, spaces, picture, as_json)
        return
    if src is None or dst is None:
        raise ProbeError("kb probe", "no DST" if src else "no SRC", "SRC and DST, or --all", "as in kb probe pe0 hbm0")
    _refuse_without_all(memories, heatmap, flows)
    result = probe_result(chip.name, probe(chip, src, dst, size, flows, Operation(op) if op else None))
    if as_json:
        emit_json(result)
    else:
        from kb_cli.report.tables.probe_tables import probe_tables

        emit_tables(*probe_tables(result))


def _probe_all(chip: Topology, nbytes: int, spaces: tuple[MemorySpace, ...], picture: Path, as_json: bool) -> None:
    """Measures every pair, draws to *picture*, and prints. Raises ProbeError where there is nothing to measure."""
    from kb_cli.report.data.probe import probe_map_result
    from kb_cli.report.pictures.probe_map import save_probe_map

    with progress_bar("probing") as progress:
        try:
            matrix = probe_all(chip, nbytes, spaces, progress)
        except ValueError as error:
            raise ProbeError("--nbytes", str(nbytes), str(error).partition("needs ")[2]) from None
    if not matrix.sources or not matrix.memories:
        named = " or ".join(space.value.upper() for space in spaces)
        raise ProbeError(chip.name, "no DMA or no memory", "both", f"give the topology PEs and {named}")
    save_probe_map(chip, matrix, picture)
    if as_json:
        emit_json(probe_map_result(chip, matrix, picture))
    else:
        from kb_cli.report.tables.probe_tables import probe_map_tables

        emit_tables(*probe_map_tables(chip, matrix), "", f"heat map      {picture}")


def _spaces(memories: str | None) -> tuple[MemorySpace, ...]:
    """Returns the spaces that --memories names, in the order of the memory map. Raises ProbeError for another name."""
    if memories is None:
        return _SPACES
    names = memories.split(",")
    known = (MemorySpace.HBM, MemorySpace.SRAM, MemorySpace.TCM)
    if not set(names) <= {space.value for space in known}:
        raise ProbeError("--memories", repr(memories), "some of hbm, sram and tcm", "as in --memories hbm,tcm")
    return tuple(space for space in known if space.value in names)


def _picture(topology: str, nbytes: int, spaces: tuple[MemorySpace, ...]) -> Path:
    """Returns the default path of the heat map. Other memories give another name, so no picture replaces another."""
    of = "" if spaces == _SPACES else "".join(f"-{space.value}" for space in spaces)
    return Path("kb-runs") / f"probe-{file_stem(topology, 'topology')}-{nbytes}{of}.svg"


def _refuse_with_all(src: str | None, flows: int, op: str | None) -> None:
    for name, given in (("SRC", src is not None), ("--flows", flows != 1), ("--op", op is not None)):
        if given:
            raise ProbeError(
                "--all", f"{name} beside it", "no more than --nbytes and --memories", "it probes every pair, alone"
            )


def _refuse_without_all(memories: str | None, heatmap: Path | None, flows: int) -> None:
    if memories is not None:
        raise ProbeError("--memories", repr(memories), "--all beside it", "name the memory as DST")
    if heatmap is not None:
        raise ProbeError("--heatmap", repr(str(heatmap)), "--all beside it", "one transfer has no map")
    if flows < 1:
        raise ProbeError("--flows", str(flows), "1 or more")
