"""Configuration of the site: ``sphinx-build -W -b html docs site``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import decentorth  # noqa: E402

project = "decentorth"
author = copyright = "The decentorth developers"
version = release = decentorth.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # the site shows formulas without a network
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["results"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature has them
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_numpy_docstring = True
napoleon_use_rtype = False
default_role = "code"

html_theme = "furo"
html_title = "decentorth"
html_show_sphinx = False
html_copy_source = False
