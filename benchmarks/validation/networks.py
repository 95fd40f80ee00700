"""Runs networks of files that other tools write: ONNX models exported by torch, and tables in SCALE-Sim's format.

    python benchmarks/validation/networks.py [NAME...] [--folder FOLDER] [--topology one_sip]

Needs `pip install torch onnx onnxscript`. The files are written to the folder, by default a temporary one, and `kb run`
runs each of them. The table says for each how many ops ran, whether all were verified, and what is unknown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The tables have sizes of published networks, with ifmaps that are padded already. Sources: Krizhevsky et al. 2012
# (AlexNet), He et al. 2015 (ResNet), Howard et al. 2017 (MobileNet), Devlin et al. 2018 (BERT-base at 128 tokens).

CONVOLUTIONS = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
PRODUCTS = "Layer, M, N, K,\n"


def alexnet() -> str:
    rows = [
        ("Conv1", 227, 11, 3, 96, 4),
        ("Conv2", 31, 5, 96, 256, 1),
        ("Conv3", 15, 3, 256, 384, 1),
        ("Conv4", 15, 3, 384, 384, 1),
        ("Conv5", 15, 3, 384, 256, 1),
        ("FC6", 1, 1, 9216, 4096, 1),
        ("FC7", 1, 1, 4096, 4096, 1),
        ("FC8", 1, 1, 4096, 1000, 1),
    ]
    return CONVOLUTIONS + "".join(map(row, rows))


def row(given: tuple[str, int, int, int, int, int]) -> str:
    name, side, window, channels, filters, stride = given
    return f"{name}, {side}, {side}, {window}, {window}, {channels}, {filters}, {stride},\n"


def resnet18() -> str:
    rows = [("Conv1", 230, 7, 3, 64, 2)]
    side, channels = 56, 64
    for stage, filters in enumerate((64, 128, 256, 512), 2):
        for block in (1, 2):
            stride = 2 if stage > 2 and block == 1 else 1
            rows.append((f"Conv{stage}_{block}a", side + 2, 3, channels, filters, stride))
            if channels != filters:
                rows.append((f"Conv{stage}_s", side, 1, channels, filters, stride))
            side //= stride
            rows.append((f"Conv{stage}_{block}b", side + 2, 3, filters, filters, 1))
            channels = filters
    return CONVOLUTIONS + "".join(map(row, [*rows, ("FC", 1, 1, 512, 1000, 1)]))


def resnet50() -> str:
    rows = [("Conv1", 230, 7, 3, 64, 2)]
    side, channels = 56, 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for block in range(1, blocks + 1):
            stride = 2 if stage > 2 and block == 1 else 1
            rows.append((f"Conv{stage}_{block}a", side, 1, channels, width, 1))
            rows.append((f"Conv{stage}_{block}b", side + 2, 3, width, width, stride))
            if block == 1:
                rows.append((f"Conv{stage}_s", side, 1, channels, 4 * width, stride))
            side //= stride
            rows.append((f"Conv{stage}_{block}c", side, 1, width, 4 * width, 1))
            channels = 4 * width
    return CONVOLUTIONS + "".join(map(row, [*rows, ("FC", 1, 1, 2048, 1000, 1)]))


def mobilenet() -> str:
    rows = [("Conv1", 226, 3, 3, 32, 2)]
    side, channels = 112, 32
    steps = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for number, (filters, stride) in enumerate(steps, 2):
        rows.append((f"DP{number}", side + 2, 3, channels, 1, stride))
        side //= stride
        rows.append((f"Conv{number}", side, 1, channels, filters, 1))
        channels = filters
    return CONVOLUTIONS + "".join(map(row, [*rows, ("FC", 1, 1, 1024, 1000, 1)]))


def bert_products() -> str:
    products = [("query", 128, 768, 768), ("key", 128, 768, 768), ("value", 128, 768, 768)]
    rows = [*(f"{name}, {m}, {n}, {k},\n" for name, m, n, k in products), "scores, 128, 128, 64, 12,\n"]
    rows += ["values, 128, 64, 128, 12,\n", "out, 128, 768, 768,\n", "up, 128, 3072, 768,\n", "down, 128, 768, 3072,\n"]
    return PRODUCTS + "".join(rows)


TABLES: dict[str, Callable[[], str]] = {
    "alexnet": alexnet,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "bert_products": bert_products,
}


MODELS = ("mlp", "resnet18", "mobilenet_v2", "bert_block", "gpt2_block", "unet")


def written(folder: Path, names: list[str]) -> Iterator[Path]:
    """Writes the files of the networks *names*: `NAME.csv` and `NAME.onnx`."""
    for name, table in TABLES.items():
        if f"{name}.csv" in names:
            (folder / f"{name}.csv").write_text(table(), encoding="utf-8")
            yield folder / f"{name}.csv"
    if not any(name.endswith(".onnx") for name in names):
        return
    import torch
    from torch_networks import networks  # beside this file

    for name, (make, inputs) in networks().items():
        if f"{name}.onnx" in names:
            path = folder / f"{name}.onnx"
            torch.onnx.export(make().eval(), inputs, str(path), dynamo=True, verbose=False)
            yield path


def run(path: Path, folder: Path, topology: str, skips: bool) -> tuple[int, dict[str, Any], str, float]:
    """The exit code, the result, the errors and the seconds of `kb run`."""
    command = ["kb", "run", str(path), "--topology", topology, "--levers", "0", "--json", "--out", str(folder / "runs")]
    begun = time.perf_counter()
    ran = subprocess.run(
        [*command, *(["-p", "unknown=skip"] if skips else [])], capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - begun
    return ran.returncode, json.loads(ran.stdout) if ran.stdout.startswith("{") else {}, ran.stderr, wall


def main() -> int:
    names = [*(f"{name}.csv" for name in TABLES), *(f"{name}.onnx" for name in MODELS)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(names)}; all by default")
    parser.add_argument("--folder", type=Path, help="where the files are written")
    parser.add_argument("--topology", default="one_sip")
    given = parser.parse_args()
    chosen = given.names or names
    if set(chosen) - set(names):
        parser.error(f"unknown: {', '.join(sorted(set(chosen) - set(names)))}")
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{'network':24}{'ops':>6}{'verified':>10}{'time us':>12}{'wall s':>8}  unknown")
        for path in written(folder, chosen):
            code, result, errors, wall = run(path, folder, given.topology, skips=False)
            unknown = ""
            if code and "operators that no op of kb computes: " in errors:
                unknown = errors.partition("no op of kb computes: ")[2].partition(", needs")[0].strip()
                code, result, errors, wall = run(path, folder, given.topology, skips=True)
            failed += code != 0
            ops = result.get("workload_ops", [])
            time_us = sum(op["latency_ps"] for op in ops) / 1e6
            said = unknown if not code else errors.strip()[:200]
            print(
                f"{path.name:24}{len(ops):6}{'yes' if not code else 'NO':>10}{time_us:12.1f}{wall:8.1f}  {said}",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
