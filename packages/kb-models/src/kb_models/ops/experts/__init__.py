"""Experts: a router that chooses experts for each row, and the mixture of these experts."""

from kb_models.ops.experts.experts import Experts as Experts
from kb_models.ops.experts.router import Router as Router
