"""Sphinx builds the site: ``make docs``. Pages and examples run while it does."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

import kernlet

DOCS = Path(__file__).parent
STYLE = Path(kernlet.__file__).parent / "report" / "kernlet.mplstyle"

# What pages and examples see: one style, the command ``kernlet``, no local data, one BLAS thread.
os.environ["MATPLOTLIBRC"] = str(STYLE)
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ.pop("KERNLET_DATA", None)
os.environ.setdefault("COLUMNS", "96")
sys.path.insert(0, str(DOCS / "_extensions"))

project = "kernlet"
author = "The kernlet developers"
copyright = author
version = release = kernlet.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "mathml",
]
exclude_patterns = [
    "results",
    "gallery/*.ipynb",
    "gallery/**/*.ipynb",
    "sg_execution_times.rst",
    "gallery/sg_execution_times.rst",
]
templates_path = ["_templates"]
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]

# Markdown pages
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_output_stderr = "warn"
nb_merge_streams = True

# Reference
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"
smartquotes = False


def skip_member(
    app: object, what: str, name: str, obj: object, skip: bool, options: object
) -> bool:
    """Leave out what is described elsewhere: fitted attributes, fields and metadata routing."""
    is_routing = name == "get_metadata_routing" or name.endswith("_request")
    is_fitted = isinstance(obj, property) and name.endswith("_")
    return skip or is_routing or is_fitted or not (callable(obj) or isinstance(obj, property))


def unlink(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make plain text of links into scikit-learn's site, in the docstrings inherited from it."""
    for number, line in enumerate(lines):
        line = re.sub(r":ref:`([^`<]+?) *<[^`]*>`", r"\1", line)
        lines[number] = re.sub(r":ref:`[^`]*`", "scikit-learn's user guide", line)


# Citations and formulas
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
html_math_renderer = "mathml"


def apply_style(config: object, name: str) -> None:
    """Give each example the style of all pictures."""
    import matplotlib.style

    matplotlib.style.use(STYLE)


sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "reset_modules": ("matplotlib", apply_style),
    "abort_on_example_error": True,
    "doc_module": ("kernlet",),
    "backreferences_dir": "gallery/backreferences",
    "reference_url": {"kernlet": None},
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": True,
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": [
        f"../examples/{section}"
        for section in ("compact", "shrink", "sparse", "large", "ship", "understand")
    ],
}


def describe_pictures(app: object, tree: nodes.document) -> None:
    """Give pictures that code draws a text for readers who cannot see them: where they stand."""
    for picture in tree.findall(lambda node: node.tagname in ("image", "imgsgnode")):
        alt = picture.get("alt", "")
        is_thumbnail = "_thumb" in picture.get("uri", "")  # its title stands beside it
        if is_thumbnail or (alt and not alt.startswith("plot ")):
            continue
        section = picture.parent
        while section and not isinstance(section, nodes.section):
            section = section.parent
        if section:
            title = section.next_node(nodes.title).astext()
            page = tree.next_node(nodes.title).astext()
            picture["alt"] = "Plot: " + (title if title == page else f"{page}, {title}")


# Appearance
html_theme = "pydata_sphinx_theme"
html_title = "kernlet"
html_static_path = ["_static"]
html_css_files = ["kernlet.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}


def setup(app: Sphinx) -> None:
    """Connect what is defined here."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", unlink)
    app.connect("doctree-read", describe_pictures)
