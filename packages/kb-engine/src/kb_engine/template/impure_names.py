"""Names of instructions and attributes by which the code of a kernel does more than compute with its own values."""

from typing import Final

INSTRUCTIONS: Final = frozenset((
    "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "POP_EXCEPT",
    "LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_NAME", "LOAD_LOCALS", "GET_AWAITABLE", "MATCH_CLASS",
))  # fmt: skip
"""Those of code that changes or looks at more than its own values, or at attributes by no name of its own, or goes on
after an error."""
ATTRIBUTES: Final = frozenset((
    "known", "place", "holder", "producer", "completion", "readers", "matrix", "operators", "is_pending", "freed",
    "in_registers", "print", "capture", "materialize", "free", "random", "datetime64", "format", "format_map",
    "gi_frame", "cr_frame", "ag_frame", "geterr", "seterr", "geterrcall", "seterrcall", "getbufsize", "setbufsize",
    "get_printoptions", "set_printoptions", "dump", "tofile",
))  # fmt: skip
"""Attributes that tell how the simulation goes on or what time it is, calls whose effect is not in the commands, ways
to attributes by names in a text, or to all names of a frame, settings of numpy, which last after a program, and methods
of arrays that write files."""
CHANGES: Final = frozenset((
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
    "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "+=", "*=", "|=",
))  # fmt: skip
"""Attributes, instructions and operators that change a list or a dict."""
