"""Questions that a log answers without being executed: dependencies, hazards, the origin of values, where time went."""

from kb_dataexec.analysis.attribution import WHERE_FORMAT, LaunchWhere, PathColumns, PeWhere, Where, WhereRow
from kb_dataexec.analysis.dependencies import backward_slice, dependencies
from kb_dataexec.analysis.hazards import Hazard
from kb_dataexec.analysis.provenance import Origin, origin
from kb_dataexec.analysis.sanitize import Finding, sanitize
from kb_dataexec.analysis.transfers import all_transfers, service_parts
from kb_dataexec.analysis.where_time import path, paths, where

__all__ = [
    "WHERE_FORMAT",
    "Finding",
    "Hazard",
    "LaunchWhere",
    "Origin",
    "PathColumns",
    "PeWhere",
    "Where",
    "WhereRow",
    "all_transfers",
    "backward_slice",
    "dependencies",
    "origin",
    "path",
    "paths",
    "sanitize",
    "service_parts",
    "where",
]
