"""Changes of the round chip, and kernels, that several test modules use."""

SHALLOW = (
    ("queue_depth: 4, memory: {space: reg", "queue_depth: 1, memory: {space: reg"),
    ("queue_depth: 4, rows", "queue_depth: 1, rows"),
    ("queue_depth: 4, lanes", "queue_depth: 1, lanes"),
    ("queue_depth: 4, setup_ns", "queue_depth: 1, setup_ns"),
    ("submission_depth: 8", "submission_depth: 1"),
)
"""Queues of one everywhere."""
ONE_TILE = (16, 16, 16)
FOUR_TILES = (64, 16, "f16"), (16, 16, "f16"), (64, 16, "f16"), (64, 16, "f16")
"""Operands of `two_gemms`, of which each product has four tiles."""


def two_gemms(tl, a, b, c, d):
    tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
    tl.composite("gemm", a, b, out=d, tile=ONE_TILE)
