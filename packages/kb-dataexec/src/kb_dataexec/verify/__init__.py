"""Comparison with a reference, tolerances, verdicts on outputs, and the search for the op that computed wrongly."""

from typing import TYPE_CHECKING

from kb_dataexec.verify.compare import Comparison as Comparison
from kb_dataexec.verify.compare import compare as compare
from kb_dataexec.verify.product_tolerance import product_tolerance as product_tolerance
from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.verify.lengths import sum_lengths as sum_lengths
    from kb_dataexec.verify.op_check import debug as debug
    from kb_dataexec.verify.outputs import StoredArray as StoredArray
    from kb_dataexec.verify.outputs import compare_output as compare_output
    from kb_dataexec.verify.outputs import read_output as read_output
    from kb_dataexec.verify.outputs import sample_output as sample_output
    from kb_dataexec.verify.product_sample import check_product as check_product
    from kb_dataexec.verify.product_sample import why_not_sampled as why_not_sampled
    from kb_dataexec.verify.roundings import Rounding as Rounding
    from kb_dataexec.verify.roundings import coarsest_roundings as coarsest_roundings
    from kb_dataexec.verify.sample_record import ProductSample as ProductSample
    from kb_dataexec.verify.sums import sum_length as sum_length
    from kb_dataexec.verify.tolerance import ToleranceError as ToleranceError
    from kb_dataexec.verify.tolerance import as_stored as as_stored
    from kb_dataexec.verify.tolerance import default_tolerance as default_tolerance
    from kb_dataexec.verify.tolerance import gemm_tolerance as gemm_tolerance

_NAMES = {
    "kb_dataexec.verify.lengths": ("sum_lengths",),
    "kb_dataexec.verify.outputs": ("StoredArray", "compare_output", "read_output", "sample_output"),
    "kb_dataexec.verify.product_sample": ("check_product", "why_not_sampled"),
    "kb_dataexec.verify.roundings": ("Rounding", "coarsest_roundings"),
    "kb_dataexec.verify.sample_record": ("ProductSample",),
    "kb_dataexec.verify.sums": ("sum_length",),
    "kb_dataexec.verify.tolerance": ("ToleranceError", "as_stored", "default_tolerance", "gemm_tolerance"),
    "kb_dataexec.verify.op_check": ("debug",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
