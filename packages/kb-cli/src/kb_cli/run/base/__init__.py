"""Parts of a run that need no simulator: names and writing of files, progress, and the records of a result."""
