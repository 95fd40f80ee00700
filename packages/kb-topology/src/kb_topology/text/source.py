"""A YAML text that finds the line and column of its parts, so that errors can point at them."""

from __future__ import annotations

from msgspec import Struct

from kb_messages import TopologyError
from kb_topology.text.yaml_reader import YamlPath, format_path, read_marks


class YamlSource(Struct, frozen=True):
    """A YAML text and the path of its file, in the form in which the user wrote the path.

    Positions are computed only when an error needs them. Files without errors pay nothing, and with an error the second
    reading of the text is short beside the user's reading of the error.
    """

    path: str
    text: str

    def locate(self, yaml_path: YamlPath) -> tuple[int, int]:
        """Line and column, from 1, of the key or list item at *yaml_path*, or of its nearest parent that exists."""
        marks = read_marks(self.text)
        while yaml_path and yaml_path not in marks:
            yaml_path = yaml_path[:-1]
        return marks.get(yaml_path, (1, 1))

    def position(self, yaml_path: YamlPath) -> str:
        """The place of *yaml_path* in the form `FILE:LINE:COL`."""
        line, column = self.locate(yaml_path)
        return f"{self.path}:{line}:{column}"

    def error(self, yaml_path: YamlPath, got: str, needs: str, fix: str = "") -> TopologyError:
        """The error for *yaml_path*. The caller raises it."""
        return TopologyError(f"{self.position(yaml_path)}: {format_path(yaml_path)}", got, needs, fix)
