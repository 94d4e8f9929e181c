"""Configuration of the site: ``sphinx-build -W -b html docs site``."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import gallery_pages  # noqa: E402
import reference_pages  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402

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
    "matplotlib.sphinxext.plot_directive",
]
root_doc = "index"
templates_path = ["_templates"]
exclude_patterns = ["results", "api/methods.rst"]
suppress_warnings = [
    # "figure1.py" of two papers; pages have the folder in their names
    "sphinx_gallery.duplicate_filename",
    # words such as "shape" in the types of parameters are attributes of several classes
    "ref.python",
    "toc.empty_glob",
]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"

# autosummary reads the disk
(ROOT / "docs/api/methods.rst").write_text(reference_pages.listed(), encoding="utf-8")
autosummary_generate = [
    f"api/{page.name}" for page in (ROOT / "docs/api").iterdir() if page.is_file()
]
autosummary_context = {
    "algorithms": [cls.__name__ for cls in reference_pages.classes()],
    "formulas": [*reference_pages.formulas()],
}
# the site is built without PyTorch, too
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request, set_partial_fit_request, set_transform_request, "
    # scikit-learn's own, whose texts point into its site
    "set_inverse_transform_request, set_score_request",
}
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = True
napoleon_use_rtype = False
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/({'|'.join(gallery_pages.FAST)})$".replace(".", r"\."),
    "ignore_pattern": r"(__init__|experiment|reproduce)\.py",
    "reset_argv": "gallery_pages.arguments",
    "within_subsection_order": "gallery_pages.order",
    "subsection_order": [
        f"../examples/{one}"
        for one in ("notebooks", "applications", "generalized", "j_orthogonal", "nonsmooth")
    ],
    "show_memory": False,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),
    "image_scrapers": ("matplotlib", "gallery_pages.drawn"),
    "plot_gallery": "True",
    "download_all_examples": False,
    "doc_module": ("decentorth", "topologies"),
    "backreferences_dir": "gallery/uses",
    "inspect_global_variables": False,
}

plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_working_directory = str(ROOT / "docs")

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "decentorth"
html_show_sphinx = False
html_copy_source = False


ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?(?:Any|int), \.\.\.\], "
    r"~?(?:numpy\.)?dtype\[~?(?:numpy\.)?float64\]\]"
)


def short(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> Any:
    """The signature with the name that arrays have in the source, and without types if these
    have bounds and descriptions, which the page has in words."""
    if signature and "Annotated[" in signature:
        full = inspect.signature(obj)
        bare = [one.replace(annotation=one.empty) for one in full.parameters.values()]
        signature = str(inspect.Signature(bare[what == "method" and not inspect.ismethod(obj) :]))
    if what == "class" and signature == "(*args: Any, **kwargs: Any)":  # of PyTorch's mocked class
        _, *own = inspect.signature(obj.__init__).parameters.values()
        signature = str(inspect.Signature([one.replace(annotation=one.empty) for one in own]))
    return tuple(text and ARRAY.sub("Array", text) for text in (signature, returned))


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep the signs | and _ of plain formulas in docstrings from being markup, but in code."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = reference_pages.escaped(line)


def shallow(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Keep the pages of single names and examples, 360 of them, out of the sidebar that every page
    has: other pages list them."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: whole(**(options | {"maxdepth": 2}))


def linked(app: Any, tree: Any) -> None:
    """Put a link in place of the file name of a page, ``docs/x.md``."""
    for name in list(tree.findall(nodes.literal)):
        if (page := re.fullmatch(r"docs/([\w/]+)\.md", name.astext())) and page[
            1
        ] in app.env.found_docs:
            words = {
                "refdomain": "std",
                "reftype": "doc",
                "reftarget": f"/{page[1]}",
                "refexplicit": False,
                "refwarn": True,
            }
            link = addnodes.pending_xref(
                "", nodes.inline("", "", classes=["xref", "doc"]), refdoc=app.env.docname, **words
            )
            name.replace_self(link)


def setup(app: Any) -> None:
    """Register the clean-up of docstrings and signatures, and the sidebar."""
    app.connect("doctree-read", linked)
    app.connect("html-page-context", shallow, priority=400)
    app.connect("autodoc-process-docstring", plain, priority=400)
    app.connect("source-read", reference_pages.linked)
    app.connect("source-read", reference_pages.methods)
    app.connect("source-read", gallery_pages.stored)
    app.connect("builder-inited", gallery_pages.pictures, priority=900)  # behind sphinx-gallery
    # behind napoleon
    app.connect("autodoc-process-docstring", reference_pages.expand, priority=900)
    app.connect("autodoc-process-signature", short)
    app.connect("autodoc-skip-member", reference_pages.hidden)
