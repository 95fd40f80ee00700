"""Programs of a grid that do as one of them did are repeated from a template, without their kernel."""

from kb_engine.template.dataclass_values import attributes_of, is_dataclass
from kb_engine.template.instructions import identities_among
from kb_engine.template.namespaces import Untold
from kb_engine.template.places_used import PlaceUsed
from kb_engine.template.played import IssuedByRun, Played
from kb_engine.template.purity import MadeKernel, parts_of
from kb_engine.template.steps import Loaded, LoadLook, PendingMark, Put, Repetition, Submission
from kb_engine.template.template import Told
from kb_engine.template.templates import NEAR, Templates, templates_of

__all__ = [
    "NEAR",
    "IssuedByRun",
    "LoadLook",
    "Loaded",
    "MadeKernel",
    "PendingMark",
    "PlaceUsed",
    "Played",
    "Put",
    "Repetition",
    "Submission",
    "Templates",
    "Told",
    "Untold",
    "attributes_of",
    "identities_among",
    "is_dataclass",
    "parts_of",
    "templates_of",
]
