"""`python -m kb_dataexec`: see README.md."""

from __future__ import annotations

import sys

from kb_dataexec.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
