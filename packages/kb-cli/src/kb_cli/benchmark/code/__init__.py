"""Code of a benchmark's author: running it, checking its results, and finding the files and values it uses."""
