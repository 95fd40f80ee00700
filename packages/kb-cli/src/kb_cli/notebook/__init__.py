"""Results in a notebook and at a prompt: runs, reports, sweeps and comparisons as HTML and as text."""
