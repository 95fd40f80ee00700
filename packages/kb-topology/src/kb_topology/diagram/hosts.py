"""Pages that show pictures of ours inside, light or dark: how a style follows the theme of a notebook or a site."""

from __future__ import annotations

from typing import Final

_LIGHT: Final = '[data-jp-theme-light="true"],.vscode-light,[data-theme="light"],[theme="light"]'
_DARK: Final = '[data-jp-theme-light="false"],.vscode-dark,[data-theme="dark"],[theme="dark"]'
"""What marks the theme on a page of Jupyter, of VS Code, of this documentation, and of Colab. Source: their pages."""


def themed_style(css_class: str, light: str, dark: str) -> str:
    """The style sheet that gives elements of *css_class* the declarations *light* or *dark*, by their page's theme.

    A page that says nothing has the theme that the reader chose for all pages. Pictures within follow the theme, too.
    """
    light, dark = f"color-scheme:light;{light}", f"color-scheme:dark;{dark}"
    return (
        f".{css_class}{{{light}}}@media(prefers-color-scheme:dark){{.{css_class}{{{dark}}}}}"
        f":is({_LIGHT}) .{css_class}{{{light}}}:is({_DARK}) .{css_class}{{{dark}}}"
    )
