"""Benchmark files that misbehave: a good one, with one line replaced."""

from __future__ import annotations

from collections.abc import Iterator

GOOD = '''\
import os, sys
import numpy as np
from msgspec import Struct
from kb_engine import Benchmark, DType

HEAD = 0

class Params(Struct, frozen=True):
    M: int = 8
    """POST"""

def kernel(tl, x, y):
    value = tl.load(x[0:8, 0:8])
    "KERNEL"
    tl.store(y[0:8, 0:8], value + value)

class Small(Benchmark):
    Params = Params
    name = "small"
    def inputs(self, p, rng):
        arrays = {"x": rng.random((8, 8), np.float32)}
        "INPUTS"
        return arrays
    def launch(self, host, p, tensors):
        x = host.tensor("x", tensors["x"], DType.F32)
        y = host.empty("y", (8, 8), DType.F32)
        "LAUNCH"
        host.launch(kernel, x, y, pes=[0])
        return {"y": y}
    def reference(self, p, inputs):
        outputs = {"y": 2.0 * inputs["x"].astype(np.float64)}
        "REFERENCE"
        return outputs
    def flops(self, p):
        "FLOPS"
        return 64
'''

RAISES = (
    "raise ValueError('no')",
    "raise SystemExit(0)",
    "raise SystemExit('x')",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "raise BaseException('b')",
    "raise StopIteration",
    "raise MemoryError",
    "raise RecursionError('r')",
    "assert False",
    "raise OSError(28, 'No space left on device')",
    "raise BrokenPipeError",
    "raise type('Odd', (Exception,), {})()",
    "raise Exception('\\x1b[31m\\x00\\n' * 3)",
    "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')",
    "1 / 0",
    "os.chdir('/')",
    "sys.exit(3)",
    "sys.setrecursionlimit(60)",
    "raise NotImplementedError",
    "raise type('S', (Exception,), {'__str__': lambda self: 1})()",
    "(lambda f: f(f))(lambda f: f(f))",
    "sys.stdout = None",
    "sys.stderr = None",
    "sys.stdout.close()",
    "print('x' * 100000)",
    "raise EOFError",
    "import kb_engine; kb_engine.Host = None",
    "del sys.modules['numpy']",
    "sys.modules.clear()",
    "import greenlet; raise greenlet.GreenletExit",
    "exec(compile('raise ValueError', '/dev/zero', 'exec'))",
    "raise type('T', (Exception,), {'__str__': lambda self: sys.exit(0)})()",
)
RESULTS = (
    "return None",
    "return 5",
    "return []",
    "return {}",
    "return {'y': None}",
    "return {5: 5}",
    "return 'y'",
    "return {'y': object()}",
    "return {'\\x1b[31m': 3}",
    "return {'../../y': 3}",
    "yield 1",
    "return NotImplemented",
)
ARRAYS = (
    "np.zeros((8, 8), object)",
    "np.zeros((8, 8), complex)",
    "np.zeros((8, 8), 'U3')",
    "np.zeros((8, 8), 'M8[s]')",
    "np.zeros((0, 8))",
    "np.zeros((7, 8))",
    "np.zeros(())",
    "np.full((8, 8), np.nan)",
    "np.full((8, 8), np.inf)",
    "np.zeros((2, 2, 2, 2))",
    "np.zeros((8, 8), [('a', 'f4')])",
    "np.ma.masked_all((8, 8))",
    "[[1, 2], [3]]",
    "'x'",
    "np.zeros((8, 8)).T[::-1]",
    "np.broadcast_to(np.float32(1), (8, 8))",
    "np.zeros((8, 8), '>f4')",
    "np.matrix('1 2; 3 4')",
    "np.zeros((8, 8), np.longdouble)",
    "None",
    "5",
    "np.float32(3)",
    "memoryview(b'abc')",
)
TOLERANCES = (
    "-1",
    "np.inf",
    "np.nan",
    "'x'",
    "1j",
    "None",
    "[[1]]",
    "np.ma.masked_all((8, 8))",
    "np.full((8, 8), -0.5)",
)
FLOPS = (
    "10 ** 400",
    "-1",
    "-(10 ** 400)",
    "1.5",
    "float('nan')",
    "float('inf')",
    "'64'",
    "None",
    "True",
    "[64]",
    "0",
    "np.int64(64)",
    "2 ** 63",
    "2 ** 64",
    "object()",
    "1j",
    "b'64'",
    "np.array([64])",
    "np.float64('nan')",
)
NAMES = (
    "5",
    "None",
    "''",
    "'../../x'",
    "'\\x1b[31mred'",
    "'a/b'",
    "'\\0'",
    "'x' * 5000",
    "['small']",
    "object()",
    "b'x'",
    "'.'",
    "'..'",
    "'con\\nname'",
)
KERNELS = (
    "async def kernel(tl, x, y): pass",
    "def kernel(tl, x, y):\n    yield 1",
    "def kernel(): pass",
    "def kernel(tl): pass",
    "def kernel(tl, x, y, z): pass",
    "kernel = None",
    "kernel = 5",
    "kernel = print",
    "def kernel(*args): args[9]",
    "class kernel: pass",
    "kernel = lambda tl, x, y: tl.load(x[0:9, 0:9])",
    "kernel = lambda tl, x, y: tl.nothing()",
    "kernel = lambda tl, x, y: tl.store(y[0:8, 0:8], 'x')",
    "kernel = lambda tl, x, y: tl.load(None)",
    "kernel = lambda tl, x, y: tl.load(x[::2, 0])",
    "kernel = lambda tl, x, y: x['a']",
    "kernel = lambda tl, x, y: tl.load(x, mask=5)",
    "kernel = lambda tl, x, y: tl.composite('gemm', x, y)",
    "kernel = lambda tl, x, y: tl.composite(None, None, None)",
    "kernel = lambda tl, x, y: tl.wait(5)",
    "kernel = lambda tl, x, y: tl.free(5)",
    "kernel = lambda tl, x, y: tl.sum(5, axis='q')",
    "kernel = lambda tl, x, y: tl.arange(0, 10 ** 12)",
    "kernel = lambda tl, x, y: tl.program_id(99)",
    "kernel = lambda tl, x, y: tl.wait(tl)",
    "kernel = lambda tl, x, y: tl.dot(x, y)",
    "kernel = lambda tl, x, y: tl.materialize(None)",
    "kernel = lambda tl, x, y: setattr(tl, 'load', None)",
)
PARAMS = (
    "def __post_init__(self): raise ValueError('post')",
    "def __post_init__(self): raise SystemExit(0)",
    "x: object = None",
    "M: str = 5",
    "y: 'Nowhere' = 1",
    "z: list = None",
    "def __post_init__(self): 1 / 0",
    "w: int",
    "v: bytes = b''",
    "u: dict = {}",
    "t: complex = 1j",
    "_s: int = 1",
    "class M: pass",
    "M = property(lambda self: 1 / 0)",
)
WHOLE = (
    "",
    "\0",
    "x = (",
    "import nowhere",
    "raise SystemExit(0)",
    "raise KeyboardInterrupt",
    "from kb_engine import Benchmark",
    "\ufeff",
    "# -*- coding: nowhere -*-\n",
    "while False: pass\nelse: 1 / 0",
    "import os; os.close(1)",
    "(" * 500 + ")" * 500,
    "class A: pass",
    "from kb_engine import Benchmark\nclass A(Benchmark): pass",
    "from kb_engine import Benchmark\nclass A(Benchmark): name = 5",
    GOOD + GOOD.replace("Small", "Other"),
    GOOD.replace("Struct", "object"),
    GOOD.replace("Params = Params", "Params = 5"),
    GOOD.replace("Params = Params", ""),
    GOOD.replace("(self, p, rng)", "()"),
    GOOD.replace("def flops(self, p)", "flops = 5\n    def other(self, p)"),
    GOOD.replace("def launch", "async def launch"),
    GOOD.replace("class Small(Benchmark)", "class Small(Benchmark, metaclass=type)"),
    GOOD.replace("pes=[0]", "pes=[99]"),
    GOOD.replace("pes=[0]", "pes='x'"),
    GOOD.replace("pes=[0]", "pes=[]"),
    GOOD.replace("pes=[0]", "pes=[0, 0]"),
    GOOD.replace("pes=[0]", "targets=5"),
    GOOD.replace("kernel, x, y", "kernel, x"),
    GOOD.replace("kernel, x, y", "None"),
    GOOD.replace("kernel, x, y", "kernel, *__import__('collections').namedtuple('P', 'x y')(x, y)"),
    GOOD.replace("kernel, x, y", "kernel, __import__('collections').namedtuple('P', 'x y')(x, y), y"),
    GOOD.replace("kernel, x, y", "kernel, {'x': x}, y"),
    GOOD.replace("DType.F32", "'f33'"),
    GOOD.replace("DType.F32", "None"),
    GOOD.replace("(8, 8), DType", "(-8, 8), DType"),
    GOOD.replace("(8, 8), DType", "(1 << 40, 1 << 40), DType"),
    GOOD.replace("(8, 8), DType", "8, DType"),
    GOOD.replace("(8, 8), DType", "'x', DType"),
)


def benchmark_files(most: int) -> Iterator[tuple[str, str]]:
    """(what is wrong, the file's text), at most *most* of them, evenly taken."""
    every = list(_every())
    count = min(most, len(every))
    yield from (every[number * len(every) // count] for number in range(count))


def _every() -> Iterator[tuple[str, str]]:
    for place in ("KERNEL", "INPUTS", "LAUNCH", "REFERENCE", "FLOPS", "HEAD"):
        for line in RAISES:
            text = GOOD.replace("HEAD = 0", line) if place == "HEAD" else GOOD.replace(f'"{place}"', line)
            yield f"{place.lower()}: {line}", text
    for place in ("INPUTS", "LAUNCH", "REFERENCE"):
        for line in RESULTS:
            yield f"{place.lower()}: {line}", GOOD.replace(f'"{place}"', line)
    for place, name in (("INPUTS", "arrays['x']"), ("REFERENCE", "outputs['y']")):
        for value in ARRAYS:
            yield f"{place.lower()}: {value}", GOOD.replace(f'"{place}"', f"{name} = {value}")
    yield from _numbers()
    for value in FLOPS:
        yield f"flops: {value}", GOOD.replace('"FLOPS"', f"return {value}")
    for value in NAMES:
        yield f"name: {value}", GOOD.replace('name = "small"', f"name = {value}")
    start, end = GOOD.index("def kernel"), GOOD.index("class Small")
    for kernel in KERNELS:
        yield f"kernel: {kernel}", f"{GOOD[:start]}{kernel}\n\n{GOOD[end:]}"
    for line in PARAMS:
        yield f"params: {line}", GOOD.replace('"""POST"""', line)
    for number, text in enumerate(WHOLE):
        yield f"file {number}: {text[:40]!r}", text


def _numbers() -> Iterator[tuple[str, str]]:
    for value in TOLERANCES:
        method = f"def tolerance(self, p, inputs, expected):\n        return {{'y': {value}}}\n    def flops"
        yield f"tolerance: {value}", GOOD.replace("def flops", method)
    for value in FLOPS:
        method = f"def footprint(self, p):\n        return {value}\n    def flops"
        yield f"footprint: {value}", GOOD.replace("def flops", method)
