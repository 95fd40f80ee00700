"""Results that a notebook shows as HTML and a prompt as text. The room `notebook`, which draws them, stands above them.

So the room is found by its name when somebody looks at a result. A class takes both functions as its methods:
`_repr_html_ = notebook_html` and `__repr__ = prompt_text`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_ROOM: Final = "kb_cli.notebook.shown"


def notebook_html(found: Any) -> str:
    """Returns *found* as an element of HTML, with its style, without script, for a light or dark notebook."""
    html: str = import_module(_ROOM).html_of(found)
    return html


def prompt_text(found: Any) -> str:
    """Returns *found* as lines of text."""
    text: str = import_module(_ROOM).text_of(found)
    return text
