"""Rules that find flaws of a kernel in its finished run, each with the gain of a rewrite."""
