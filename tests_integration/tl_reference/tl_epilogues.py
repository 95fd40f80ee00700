"""Epilogues

Ops on the result of a [`tl.composite`](#tlcomposite) on its way to memory.
"""

import numpy as np
from tl_given import gives

COMMON = "EpilogueOps"
_PART = "no command: a MATH stage of the GEMM's command, on every tile that its *scope* names"


@gives(lambda a, b, row: a @ b + np.tile(row, 2), _PART)
def tl_bias(tl, a, b, row, y):
    for cols in (slice(0, 8), slice(8, 16)):
        tl.wait(tl.composite("gemm", a, b[:, cols], out=y[:, cols], epilogue=(tl.bias(row),)))


@gives(lambda a, b: a @ b + a[:, :16], _PART)
def tl_residual(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.residual(a[:, 0:16]),)))


@gives(lambda a, b: 0.5 * (a @ b), _PART)
def tl_scale(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.scale(0.5),)))


@gives(lambda a, b: 0.25 * (a @ b), _PART)
def tl_dequant(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.dequant(0.25),)))


@gives(lambda a, b: np.maximum(a @ b, 0), _PART)
def tl_relu(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.relu(),)))


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@gives(lambda a, b: _gelu(a @ b), _PART)
def tl_gelu(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.gelu(),)))


@gives(lambda a, b: (a @ b) / (1 + np.exp(-(a @ b))), _PART)
def tl_silu(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.silu(),)))


@gives(lambda a, b: (a @ b).astype(np.float32).astype(np.float16).astype(np.float64), _PART)
def tl_cast(tl, a, b, y):
    tl.wait(tl.composite("gemm", a, b, out=y, epilogue=(tl.cast("f16"),)))
