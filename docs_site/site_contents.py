"""All pages of the site as Markdown: those of the repository, those made from code, and the sources they lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from site_chips import bundled_pages, files
from site_commands import command_pages
from site_links import Links
from site_notebooks import as_markdown
from site_places import ROOT, notebooks, page_of, pages
from site_python import python_pages
from site_rooms import rooms_as_table
from site_sections import root_toctree, section_pages, toctree
from site_sources import source_page
from site_specs import spec_pages

_TITLE = re.compile(r"^# +(.+?) *$", re.MULTILINE)
_SLUG = re.compile(r"[^\w\- ]")
DATAEXEC, LOG_FORMAT = "packages/kb-dataexec.md", "reference/log-format.md"
_LOG_PART = re.compile(r"^## The op log on disk\n.*?(?=^## A memory on disk\n)", re.MULTILINE | re.DOTALL)


class Contents(NamedTuple):
    """The text of each page, and the file of each picture, by their places in the site."""

    pages: dict[str, str]
    pictures: dict[str, Path]


def contents(gallery: str) -> Contents:
    """The whole site, with *gallery* as the text of the gallery's page.

    Raises ValueError for a link that leads nowhere.
    """
    origins = {place: ROOT / name for name, place in pages().items()}
    texts = {place: path.read_text(encoding="utf-8") for place, path in origins.items()}
    texts |= {place: as_markdown(texts[place], Path(name).name) for name, place in notebooks().items()}
    log_part = _LOG_PART.search(texts[DATAEXEC])
    if log_part is None:
        raise ValueError("packages/kb-dataexec/README.md: got no chapter on the log on disk, needs one")
    at_log = {True: LOG_FORMAT, False: DATAEXEC}
    in_log_part = {anchor(each) for each in re.findall(r"^#+ +(.+?) *$", log_part[0], re.MULTILINE)}
    links = Links(lambda page, at: page if page not in (DATAEXEC, LOG_FORMAT) or not at else at_log[at in in_log_part])
    texts[DATAEXEC] = texts[DATAEXEC].replace(log_part[0], _LOG_LINK)
    texts[LOG_FORMAT] = re.sub(r"^#(#+) ", r"\1 ", log_part[0], flags=re.MULTILINE)
    origins[LOG_FORMAT] = origins[DATAEXEC]
    found = {place: links.rewrite(text, origins[place], place) for place, text in texts.items()}
    found["rooms.md"] = rooms_as_table(found["rooms.md"])
    found["repository.md"] = found["repository.md"].replace("# kernbench\n", "# The repository\n", 1)
    found |= {**command_pages(), **spec_pages(), **python_pages(), **bundled_pages(), "gallery.md": gallery}
    for target in [*links.targets.values(), *files()]:
        if page_of(target) not in found and page_of(target).startswith("source/"):
            found[page_of(target)] = source_page(target)
    found |= _lists(found)
    found |= section_pages({place: title(text) for place, text in found.items()})
    found["index.md"] += f"\n{root_toctree()}"
    return Contents(found, links.pictures)


def title(text: str) -> str:
    """The title of a page."""
    found = _TITLE.search(text)
    return found[1] if found else ""


def anchor(heading: str) -> str:
    """The anchor of *heading*, as GitHub and the site make it."""
    return _SLUG.sub("", heading.lower()).replace(" ", "-")


def _lists(found: dict[str, str]) -> dict[str, str]:
    """The pages that list the design and the changes, with those below them."""
    design = sorted(place for place in found if place.startswith("design/") and place != "design/index.md")
    changes = sorted(place for place in found if place.startswith("changes/"))
    rows = "\n".join(f"- [{Path(place).stem}]({Path(place).name})" for place in changes)
    return {
        "design/index.md": f"{found['design/index.md']}\n{toctree(design, 'design/index.md')}",
        "changes/index.md": f"# Changes\n\nEach package has its own list of changes.\n\n{rows}\n\n"
        + toctree(changes, "changes/index.md"),
    }


_LOG_LINK = """\
## The op log on disk

[The log format](#the-op-log-on-disk) has every file and column.

"""
