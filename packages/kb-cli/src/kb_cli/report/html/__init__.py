"""HTML files: the report of a run, and the report of a sweep."""
