"""Whole models on simulated chips: layouts, ops by layout, builders, configurations, and networks in files."""

from kb_models.workload import ModelParams as ModelParams
from kb_models.workload import ModelWorkload as ModelWorkload
from kb_models.workload import OpsWorkload as OpsWorkload

__version__ = "0.1.0"
