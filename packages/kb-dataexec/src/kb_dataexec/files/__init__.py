"""Checked reading of files that may be damaged, hostile or too large, and writing that names the file that fails."""

from kb_dataexec.files.arrays import read_array
from kb_dataexec.files.free_memory import available_nbytes, with_swap_nbytes
from kb_dataexec.files.json_text import (
    DistinctKeys,
    UnreadableJsonError,
    decode_json,
    json_decoder,
    read_json,
    read_json_lines,
)
from kb_dataexec.files.writing import write_array, writing
from kb_messages import decode_text, file_in, open_regular, read_bytes, read_text

__all__ = [
    "DistinctKeys",
    "UnreadableJsonError",
    "available_nbytes",
    "decode_json",
    "decode_text",
    "file_in",
    "json_decoder",
    "open_regular",
    "read_array",
    "read_bytes",
    "read_json",
    "read_json_lines",
    "read_text",
    "with_swap_nbytes",
    "write_array",
    "writing",
]
