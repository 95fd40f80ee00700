"""Reports as data: the records that `--json` prints, and from which tables and pages are made."""
