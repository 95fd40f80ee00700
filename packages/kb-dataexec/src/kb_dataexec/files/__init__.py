"""Checked reading of files that may be damaged, hostile or too large, and writing that names the file that fails."""

from kb_dataexec.files.arrays import read_array
from kb_dataexec.files.json_text import DistinctKeys, decode_json, read_json, read_json_lines
from kb_dataexec.files.writing import write_array, writing
from kb_messages import file_in, open_regular, read_bytes

__all__ = [
    "DistinctKeys",
    "decode_json",
    "file_in",
    "open_regular",
    "read_array",
    "read_bytes",
    "read_json",
    "read_json_lines",
    "write_array",
    "writing",
]
