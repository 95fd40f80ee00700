"""Comparison with a reference, tolerances, verdicts on outputs, and the search for the op that computed wrongly."""

from typing import TYPE_CHECKING

from kb_dataexec.verify.compare import Comparison, compare
from kb_dataexec.verify.outputs import compare_output, read_output, sample_output
from kb_dataexec.verify.product_sample import ProductSample, check_product, why_not_sampled
from kb_dataexec.verify.product_tolerance import product_tolerance
from kb_dataexec.verify.sum_lengths import sum_lengths
from kb_dataexec.verify.sums import sum_length
from kb_dataexec.verify.tolerance import ToleranceError, as_stored, default_tolerance, gemm_tolerance
from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.verify.op_check import debug as debug

__all__ = [
    "Comparison",
    "ProductSample",
    "ToleranceError",
    "as_stored",
    "check_product",
    "compare",
    "compare_output",
    "debug",
    "default_tolerance",
    "gemm_tolerance",
    "product_tolerance",
    "read_output",
    "sample_output",
    "sum_length",
    "sum_lengths",
    "why_not_sampled",
]

_NAMES = {"kb_dataexec.verify.op_check": ("debug",)}
__getattr__, __dir__ = lazy_door(__name__, _NAMES)
