"""Puts the checkout's topologies and benchmarks into the wheel, so that an installed `kb` has them too."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLED = {"topologies": "**/*.yaml", "benchmarks": "*.py"}  # *.py: benchmarks/speed measures the simulator itself


class BundleHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the checkout's own folders are found; a copy would go stale
            return
        checkout = Path(self.root).parents[1]
        for folder, pattern in BUNDLED.items():
            files = sorted((checkout / folder).glob(pattern))
            if not files:
                raise FileNotFoundError(f"{checkout / folder}: no {pattern}; build kb-cli in its checkout")
            for file in files:
                build_data["force_include"][str(file)] = f"kb_cli/_bundled/{file.relative_to(checkout)}"
