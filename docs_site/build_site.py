"""Builds the site of the documentation: `python docs_site/build_site.py`, or `nox -s site`.

The Markdown of all pages goes to build/site-pages, and the site to build/site. Both are replaced. `--out` names another
folder than build.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from site_contents import contents
from site_gallery import NO_SCREENS, SCREENS_FOLDER, gallery_page, make
from site_notebooks import outputs, with_outputs
from site_places import ROOT, notebooks
from site_screens import TIMELINE, screen_html

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Build the site. Returns the exit code of Sphinx, which is not 0 when it warned of anything."""
    parser = argparse.ArgumentParser(description="Build the documentation as a site, into build/site.")
    parser.add_argument(
        "--no-gallery", action="store_true", help="run no kernels; the gallery and notebooks show code alone"
    )
    parser.add_argument("--browser", help="the program that takes pictures of kb web; without it there are none")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="where the site goes; build if not given")
    options = parser.parse_args()
    pages, site = options.out / "site-pages", options.out / "site"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    write_pages(pages, None if options.no_gallery else pages / "made", options.browser)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-c", str(HERE)]
    code = subprocess.run([*sphinx, str(pages), str(site)], check=False).returncode
    if code == 0:
        for name, place in notebooks().items():
            shutil.copy(ROOT / name, site / Path(place).parent)
        if not options.no_gallery:
            shutil.copytree(pages / "made", site / "made")
        print(f"{site / 'index.html'}: open it in a browser")
    return code


def write_pages(folder: Path, made: Path | None, browser: str | None) -> None:
    """Write the Markdown of all pages and their pictures into *folder*.

    With *made*, commands and notebooks run, and the pictures of the gallery go there; with the program *browser* those
    of `kb web` too.
    """
    printed, shown = None, dict[str, dict[str, str]]()
    if made is not None:
        with tempfile.TemporaryDirectory() as work:
            printed = make(made, Path(work), browser)
            shown = {place: outputs(ROOT / name, Path(work)) for name, place in notebooks().items()}
    has_screens = printed is not None and browser is not None
    found = contents(gallery_page(printed, has_screens))
    pages = {place: with_outputs(found.pages[place], shown.get(place, {})) for place in notebooks().values()}
    pages["web.md"] = with_screen(found.pages["web.md"], has_screens)
    for place, text in {**found.pages, **pages}.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for place, picture in found.pictures.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, folder / place)


_SCREEN = "<!-- the timeline, in the site -->"


def with_screen(text: str, has_screens: bool) -> str:
    """The page *text* with the picture of the timeline in its place.

    Raises ValueError for a page without the place.
    """
    if _SCREEN not in text:
        raise ValueError(f"docs/web.md: got no {_SCREEN}, needs the place of the picture")
    return text.replace(_SCREEN, screen_html(TIMELINE, SCREENS_FOLDER) if has_screens else NO_SCREENS)


if __name__ == "__main__":
    sys.exit(main())
