"""Vector programs: the chains of element-wise work that `tl` records and issues as one command."""
