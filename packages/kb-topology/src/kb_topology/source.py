"""Source: a YAML text that knows where its parts are, so that an error can point at one."""

from __future__ import annotations

from msgspec import Struct

from kb_messages import TopologyError
from kb_topology.yaml_reader import YamlPath, format_path, read_marks


class Source(Struct, frozen=True):
    """A YAML text and the path it came from, as the user wrote that path.

    Positions are computed when an error asks for them: reading the text a second time is cheap beside a user reading
    the sentence, and a file without errors does not pay for it.
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
        """The place of *yaml_path* as `FILE:LINE:COL`."""
        line, column = self.locate(yaml_path)
        return f"{self.path}:{line}:{column}"

    def error(self, yaml_path: YamlPath, got: str, needs: str, fix: str = "") -> TopologyError:
        """The error that says what is wrong at *yaml_path*; the caller raises it."""
        return TopologyError(f"{self.position(yaml_path)}: {format_path(yaml_path)}", got, needs, fix)
