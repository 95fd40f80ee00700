"""One run: pass 1, pass 2, the comparison of outputs, and the verification of a finished run."""
