"""Questions that a log answers without being executed: dependencies, hazards, the origin of values, where time went."""

from kb_dataexec.analysis.attribution import WHERE_FORMAT, LaunchWhere, PathColumns, PeWhere, Where, WhereRow
from kb_dataexec.analysis.dependencies import backward_slice, dependencies
from kb_dataexec.analysis.dma_ops import DmaOps, FarEnds
from kb_dataexec.analysis.hazards import Hazard
from kb_dataexec.analysis.provenance import Origin, origin
from kb_dataexec.analysis.sanitize import Finding, sanitize
from kb_dataexec.analysis.shares import (
    BlockShare,
    LineShare,
    PathShare,
    PeShares,
    block_shares,
    line_shares,
    path_shares,
    pe_shares,
    total_ps,
)
from kb_dataexec.analysis.transfers import all_transfers, memory_spans, service_parts
from kb_dataexec.analysis.where_time import Causes, DispatchWaits, Holder, Moment, path, paths, where

__all__ = [
    "WHERE_FORMAT",
    "BlockShare",
    "Causes",
    "DispatchWaits",
    "DmaOps",
    "FarEnds",
    "Finding",
    "Hazard",
    "Holder",
    "LaunchWhere",
    "LineShare",
    "Moment",
    "Origin",
    "PathColumns",
    "PathShare",
    "PeShares",
    "PeWhere",
    "Where",
    "WhereRow",
    "all_transfers",
    "backward_slice",
    "block_shares",
    "dependencies",
    "line_shares",
    "memory_spans",
    "origin",
    "path",
    "path_shares",
    "paths",
    "pe_shares",
    "sanitize",
    "service_parts",
    "total_ps",
    "where",
]
