"""Replay: programs of a grid that repeat an earlier program run from a template, without their kernel."""

from kb_engine.fastforward.replay.dataclass_values import attributes_of, is_dataclass
from kb_engine.fastforward.replay.instructions import identities_among
from kb_engine.fastforward.replay.namespaces import Opaque
from kb_engine.fastforward.replay.places_used import PlaceUsed
from kb_engine.fastforward.replay.purity import MadeKernel, parts_of
from kb_engine.fastforward.replay.steps import LoadCheck, Loaded, PendingMark, Repetition, StoreLoaded, Submission
from kb_engine.fastforward.replay.template import MemoryStep
from kb_engine.fastforward.replay.templates import NEAR, IssuedByRun, ReplayedPrograms, Templates, templates_of

__all__ = [
    "NEAR",
    "IssuedByRun",
    "LoadCheck",
    "Loaded",
    "MadeKernel",
    "MemoryStep",
    "Opaque",
    "PendingMark",
    "PlaceUsed",
    "Repetition",
    "ReplayedPrograms",
    "StoreLoaded",
    "Submission",
    "Templates",
    "attributes_of",
    "identities_among",
    "is_dataclass",
    "parts_of",
    "templates_of",
]
