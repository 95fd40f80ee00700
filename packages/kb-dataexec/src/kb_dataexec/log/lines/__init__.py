"""Op logs as lines of JSON: the reader, the schema of a line, and the rows of auxiliary tables."""
