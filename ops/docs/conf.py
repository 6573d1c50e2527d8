"""Sphinx' settings of the site, with addresses as on GitHub and links to edit a page."""

from __future__ import annotations

import os
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from ops.docs.pages import pages, source_url

_FILES = {name: file for file, name in pages().items()}
_VERSION = os.environ.get("DOCS_VERSION", "")

project = "Postdate"
html_title = f"Postdate {_VERSION}".strip()
extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton"]
root_doc = "index"
language = "en"
myst_heading_anchors = 6
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
html_theme = "furo"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = html_show_sphinx = html_show_copyright = html_use_index = False
html_permalinks_icon = "#"
html_theme_options = {
    "source_repository": "",
    "light_css_variables": {"color-brand-primary": "#1d4ed8", "color-brand-content": "#1d4ed8"},
    "dark_css_variables": {"color-brand-primary": "#93b4ff", "color-brand-content": "#93b4ff"},
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def address_headings(app: Sphinx, doctree: nodes.document) -> None:
    """A heading's address is the one that GitHub gives it, by which pages link to it."""
    for section in doctree.findall(nodes.section):
        if slug := section.get("slug"):
            section["ids"] = [slug, *(each for each in section["ids"] if each != slug)]


def complete_the_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    file = _FILES.get(pagename)
    context["docs_version"] = _VERSION
    context["markdown"] = f"{pagename.rpartition('/')[2]}.html.md" if file else None
    captions = context.get("furo_navigation_tree", "")  # the theme's headings say no level
    context["furo_navigation_tree"] = captions.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )
    if file and (url := source_url(file, "edit")):
        context["theme_source_edit_link"] = url


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", address_headings)
    app.connect("html-page-context", complete_the_page, priority=900)  # after the theme
