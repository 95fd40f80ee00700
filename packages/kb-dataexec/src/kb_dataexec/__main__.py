"""`python -m kb_dataexec`. README.md describes the commands."""

from __future__ import annotations

import sys

from kb_dataexec.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
