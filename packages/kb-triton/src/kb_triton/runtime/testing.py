"""The names of `triton.testing`: simulated times, comparisons, and tables of measurements."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_messages import DType, KbError, write_out
from kb_topology import did_you_mean
from kb_triton.host import current, is_array

PS_PER_MS = 1e9
_KINDS: Final = {
    "float32": DType.F32, "float16": DType.F16, "bfloat16": DType.BF16, "int8": DType.I8, "float8_e4m3fn": DType.F8E4M3,
    "float8_e5m2": DType.F8E5M2, "fp32": DType.F32, "fp16": DType.F16, "bf16": DType.BF16, "fp8e4nv": DType.F8E4M3,
    "fp8e5": DType.F8E5M2,
}  # fmt: skip


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Returns the simulated milliseconds of the launches in one call of *fn*. Every call takes the same time.

    With several *quantiles*, returns a list with the time for each; with *return_mode* `all`, a list of one time.
    Returns NaN for a call that launches nothing, because work of this machine has no simulated time. *warmup*, *rep*
    and *grad_to_none* do nothing.
    """
    device = current()
    launches, before_ps = device.n_launches, device.elapsed_ps
    fn()
    took = (device.elapsed_ps - before_ps) / PS_PER_MS if device.n_launches > launches else float("nan")
    if quantiles is not None:
        return took if len(quantiles) == 1 else [took] * len(quantiles)
    return [took] if return_mode == "all" else took


def do_bench_cudagraph(fn: Callable[[], Any], rep: int = 20, **options: Any) -> Any:
    """Returns the simulated milliseconds of the launches in one call of *fn*, as `do_bench` does."""
    return do_bench(fn, **options)


def do_bench_proton(fn: Callable[[], Any], **options: Any) -> Any:
    """Returns the simulated milliseconds of the launches in one call of *fn*, as `do_bench` does."""
    return do_bench(fn, **{name: value for name, value in options.items() if name in ("quantiles", "return_mode")})


do_bench_cudagraph_proton = do_bench_proton


def cuda_memcheck(**target_kwargs: Any) -> Callable[[Any], Any]:
    """Decorates a test. It stays as it is: each access beyond an array is an error."""
    return lambda test: test


def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> None:
    """Raises KbError: the clocks of the chip are those of its file."""
    raise KbError("triton.testing", "set_gpu_clock", "a chip with other clocks: they are in its YAML file")


def cuda_graph_without_gc(*arguments: Any, **named: Any) -> None:
    """Raises KbError: there are no CUDA graphs."""
    raise KbError("triton.testing", "a CUDA graph", "launches", "call what the graph replays")


def assert_close(x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """Raises AssertionError unless |x - y| <= atol + rtol |y| for all elements. The defaults are 0.01 and 0."""
    got, expected = _as_array(x), _as_array(y)
    atol = 1e-2 if atol is None else atol
    rtol = 0.0 if rtol is None else rtol
    np.testing.assert_allclose(got, expected, rtol, atol, equal_nan=True, err_msg=err_msg)


def _as_array(value: Any) -> npt.NDArray[Any]:
    if is_array(value) and not isinstance(value, np.ndarray):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    found = np.asarray(value)
    return found if found.dtype.kind in "biu" else found.astype(np.float64)


class Measurements:
    """The points of a measurement, `triton.testing.Benchmark`: each of *x_vals* with each of *line_vals*."""

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: dict[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        **appearance: Any,
    ) -> None:
        self.x_names = list(x_names)
        self.x_vals = list(x_vals)
        self.line_arg = line_arg
        self.line_vals = list(line_vals)
        self.line_names = list(line_names)
        self.plot_name = plot_name
        self.args = args
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.appearance = appearance


class Mark:
    """A function with the points at which `run` measures it. The results are tables; there are no pictures."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Measurements | Sequence[Measurements]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **named: Any,
    ) -> Any:
        """Calls the function at each point, with *named* as further arguments.

        With *print_data*, prints the tables; with *save_path*, writes them there as CSV files; with *return_df*,
        returns each as a list of dicts. *show_plots* shows nothing.
        """
        several = not isinstance(self.benchmarks, Measurements)
        every: Any = self.benchmarks if several else [self.benchmarks]
        tables = [self._table(each, named) for each in every]
        for bench, rows in zip(every, tables, strict=True):
            if print_data:
                write_out(f"{bench.plot_name}:\n{_shown(rows)}\n")
            if save_path:
                _save(Path(save_path), bench.plot_name, rows)
        if not return_df:
            return None
        return tables if several else tables[0]

    def _table(self, bench: Measurements, named: dict[str, Any]) -> list[dict[str, Any]]:
        rows = []
        for x in bench.x_vals:
            values = x if isinstance(x, (tuple, list)) else [x] * len(bench.x_names)
            row: dict[str, Any] = dict(zip(bench.x_names, values, strict=True))
            for line, name in zip(bench.line_vals, bench.line_names, strict=True):
                found = self.fn(**row_of(bench, values), **{bench.line_arg: line}, **bench.args, **named)
                row[name] = found[0] if isinstance(found, (tuple, list)) else found
            rows.append(row)
        return rows


def row_of(bench: Measurements, values: Sequence[Any]) -> dict[str, Any]:
    """Returns the arguments of one point along x."""
    return dict(zip(bench.x_names, values, strict=True))


def perf_report(benchmarks: Measurements | Sequence[Measurements]) -> Callable[[Callable[..., Any]], Mark]:
    """Decorates a function that measures. *benchmarks* has the arguments to measure with."""
    return lambda fn: Mark(fn, benchmarks)


def _shown(rows: Sequence[dict[str, Any]]) -> str:
    """Returns *rows* as a table of text."""
    if not rows:
        return "(no rows)"
    cells = [[str(name) for name in rows[0]], *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in cells)


def _cell(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _save(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


Benchmark = Measurements
"""Triton's name."""


def get_dram_gbps(device: Any = None) -> float:
    """Returns the bandwidth of all HBM of the chip in GB/s."""
    return current().hbm_gbs


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float | None = None, device: Any = None) -> float:
    """Returns the 10^12 operations per second of all arrays of the chip for products of *dtype*, at their own clock.

    *dtype* is a type of torch, of numpy or of `tl`. Raises KbError for a type that the chip does not have.
    """
    name = getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
    kind = _KINDS.get(name)
    if kind is None:
        raise KbError("triton.testing", f"{dtype} as a type", f"one of {', '.join(_KINDS)}")
    return current().peak_flops(kind) / 1e12


def get_max_simd_tflops(dtype: Any, clock_rate: float | None = None, device: Any = None) -> float:
    """Raises KbError: the chip states no peak rate of its vector units."""
    raise KbError("triton.testing", "get_max_simd_tflops", "get_max_tensorcore_tflops: vector units state no peak rate")


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Returns the clock of the arrays in MHz for each of *attrs*, all of clocks. Raises KbError for other facts."""
    others = [each for each in attrs if not each.startswith("clocks.")]
    if others:
        raise KbError("triton.testing", f"nvsmi of {', '.join(others)}", "clocks: the chip is no GPU")
    return [round(current().clock_ghz * 1000)] * len(attrs)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    near = did_you_mean(name, [each for each in globals() if not each.startswith("_")])
    raise AttributeError(f"triton.testing.{name}: got a name that kb-triton does not have{near and f'; {near}'}")
