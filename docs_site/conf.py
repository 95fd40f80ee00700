"""How Sphinx makes the site of the Markdown pages that build_site.py writes."""

from importlib.metadata import version as version_of

project = "kernbench"
author = "The kernbench developers"
copyright = "The kernbench developers"  # noqa: A001 -- the name that Sphinx asks for
version = release = version_of("kb-cli")

extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 6
nitpicky = True
pygments_style = "default"

html_theme = "pydata_sphinx_theme"
html_title = "kernbench"
html_favicon = "../packages/kb-cli/src/kb_cli/web/page/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": [], "gallery": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "kernbench"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
