"""Type-check the examples of READMEs: `readme_types.py [README ...]`, or those of the packages that are used alone.

All blocks of a README that begin with ```python become one module. Of a doctest only the lines after `>>>` and `...`
count. An example may import packages, and no module behind their doors. mypy --strict does the rest.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALONE = ("kb-plans", "kb-messages", "kb-dataexec")
_BEHIND_A_DOOR = re.compile(r"(from|import) +kb_\w+\.")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def module_of(readme: str) -> str:
    """The Python code of all blocks of *readme*, in order; the line of a block is in a comment before it."""
    parts = ["from __future__ import annotations"]
    for block in _BLOCK.finditer(readme):
        parts.append(f"# line {readme.count(chr(10), 0, block.start()) + 2} of the README")
        text = block[1]
        parts.append(doctest.script_from_examples(text) if ">>> " in text else text)
    assert len(parts) > 1, "a README without an example shows nothing"
    code = "\n".join(parts)
    assert not _BEHIND_A_DOOR.search(code), "an example imports what a package does not export"
    return code


def main(readmes: list[Path]) -> int:
    """The exit code of mypy."""
    with tempfile.TemporaryDirectory() as folder:
        modules = []
        for path in readmes:
            name = re.sub(r"\W", "_", path.resolve().parent.name)
            module = Path(folder) / f"readme_of_{name}.py"
            module.write_text(module_of(path.read_text(encoding="utf-8")), encoding="utf-8")
            modules.append(str(module))
        mypy = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code", "no-redef", *modules]
        return subprocess.run(mypy, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main([Path(arg) for arg in sys.argv[1:]] or [ROOT / "packages" / name / "README.md" for name in ALONE]))
