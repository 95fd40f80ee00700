"""Whole models on simulated chips: layouts, ops by layout, builders, configurations, and networks in files."""

from kb_models.models.architecture import Architecture as Architecture
from kb_models.models.builder import Builder as Builder
from kb_models.models.config import ConfigKeys as ConfigKeys
from kb_models.models.params import ModelParams as ModelParams
from kb_models.workload import ModelWorkload as ModelWorkload
from kb_models.workload import OpsWorkload as OpsWorkload

__version__ = "0.1.0"
