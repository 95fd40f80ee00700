"""Puts this folder on the path, so that tests can import the helper modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
