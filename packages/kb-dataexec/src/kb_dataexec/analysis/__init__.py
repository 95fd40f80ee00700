"""Analyses of a log without executing it: dependencies, hazards, origins of values, critical paths, time by line."""

from typing import TYPE_CHECKING

from kb_dataexec.analysis.dependencies import backward_slice as backward_slice
from kb_dataexec.analysis.dependencies import dependencies as dependencies
from kb_dataexec.analysis.findings import Element as Element
from kb_dataexec.analysis.findings import ElementNames as ElementNames
from kb_dataexec.analysis.findings import Finding as Finding
from kb_dataexec.analysis.findings import RaceReport as RaceReport
from kb_dataexec.analysis.findings import unnamed as unnamed
from kb_dataexec.analysis.programs import Numbering as Numbering
from kb_dataexec.analysis.programs import ProgramName as ProgramName
from kb_dataexec.analysis.programs import Programs as Programs
from kb_dataexec.analysis.races.race_search import RaceSearch as RaceSearch
from kb_dataexec.analysis.sanitize import Searched as Searched
from kb_dataexec.analysis.sanitize import sanitize as sanitize
from kb_dataexec.analysis.sanitize import search as search
from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.analysis.attribution import WHERE_FORMAT as WHERE_FORMAT
    from kb_dataexec.analysis.attribution import LaunchWhere as LaunchWhere
    from kb_dataexec.analysis.attribution import PathColumns as PathColumns
    from kb_dataexec.analysis.attribution import PeWhere as PeWhere
    from kb_dataexec.analysis.attribution import Where as Where
    from kb_dataexec.analysis.attribution import WhereRow as WhereRow
    from kb_dataexec.analysis.critical_path.where_time import Causes as Causes
    from kb_dataexec.analysis.critical_path.where_time import DispatchWaits as DispatchWaits
    from kb_dataexec.analysis.critical_path.where_time import Holder as Holder
    from kb_dataexec.analysis.critical_path.where_time import Moment as Moment
    from kb_dataexec.analysis.critical_path.where_time import path as path
    from kb_dataexec.analysis.critical_path.where_time import paths as paths
    from kb_dataexec.analysis.critical_path.where_time import where as where
    from kb_dataexec.analysis.dma_ops import DmaOps as DmaOps
    from kb_dataexec.analysis.dma_ops import DmaOpsOnTheWay as DmaOpsOnTheWay
    from kb_dataexec.analysis.dma_ops import FarEnds as FarEnds
    from kb_dataexec.analysis.hazards import Hazard as Hazard
    from kb_dataexec.analysis.provenance import Origin as Origin
    from kb_dataexec.analysis.provenance import origin as origin
    from kb_dataexec.analysis.shares import BlockShare as BlockShare
    from kb_dataexec.analysis.shares import LineShare as LineShare
    from kb_dataexec.analysis.shares import PathShare as PathShare
    from kb_dataexec.analysis.shares import PeShares as PeShares
    from kb_dataexec.analysis.shares import block_shares as block_shares
    from kb_dataexec.analysis.shares import line_shares as line_shares
    from kb_dataexec.analysis.shares import path_shares as path_shares
    from kb_dataexec.analysis.shares import pe_shares as pe_shares
    from kb_dataexec.analysis.shares import total_ps as total_ps
    from kb_dataexec.analysis.talks import Channels as Channels
    from kb_dataexec.analysis.talks import SyncWaits as SyncWaits
    from kb_dataexec.analysis.talks import channels as channels
    from kb_dataexec.analysis.talks import sync_waits as sync_waits
    from kb_dataexec.analysis.transfers import LazyServices as LazyServices
    from kb_dataexec.analysis.transfers import all_transfers as all_transfers
    from kb_dataexec.analysis.transfers import memory_spans as memory_spans
    from kb_dataexec.analysis.transfers import service_parts as service_parts
    from kb_dataexec.analysis.windows.path_forest import NoWindowsError as NoWindowsError
    from kb_dataexec.analysis.windows.where_windows import where_in_windows as where_in_windows

_NAMES = {
    "kb_dataexec.analysis.attribution": (
        "LaunchWhere",
        "PathColumns",
        "PeWhere",
        "WHERE_FORMAT",
        "Where",
        "WhereRow",
    ),
    "kb_dataexec.analysis.critical_path.where_time": (
        "Causes",
        "DispatchWaits",
        "Holder",
        "Moment",
        "path",
        "paths",
        "where",
    ),
    "kb_dataexec.analysis.dma_ops": (
        "DmaOps",
        "DmaOpsOnTheWay",
        "FarEnds",
    ),
    "kb_dataexec.analysis.hazards": ("Hazard",),
    "kb_dataexec.analysis.provenance": (
        "Origin",
        "origin",
    ),
    "kb_dataexec.analysis.shares": (
        "BlockShare",
        "LineShare",
        "PathShare",
        "PeShares",
        "block_shares",
        "line_shares",
        "path_shares",
        "pe_shares",
        "total_ps",
    ),
    "kb_dataexec.analysis.talks": (
        "Channels",
        "SyncWaits",
        "channels",
        "sync_waits",
    ),
    "kb_dataexec.analysis.transfers": (
        "LazyServices",
        "all_transfers",
        "memory_spans",
        "service_parts",
    ),
    "kb_dataexec.analysis.windows.path_forest": ("NoWindowsError",),
    "kb_dataexec.analysis.windows.where_windows": ("where_in_windows",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
