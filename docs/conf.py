"""Sphinx: ``make docs`` builds the site offline, with warnings as errors."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import derivdata

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # pages use simulations of the tests
import_module("generate").main()
import_module("diagrams").write()
import_module("reference_pages").write(HERE / "reference")
import_module("gallery_pages").write(HERE / "gallery")


def setup(app: Any) -> None:
    """Run the blocks of pages, and check the search index at the end; Sphinx calls it."""
    import_module("outputs").setup(app)
    app.connect("build-finished", import_module("search_check").check, priority=900)  # after the theme


project = "derivdata"
author = "derivdata contributors"
version = release = derivdata.__version__
html_title = f"derivdata {version}"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "generated", "outputs"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are stored with their outputs
nb_output_stderr = "remove"  # progress bars
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # nothing from elsewhere in a page

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["diagrams.css", "site.css"]
html_js_files = ["tables.js"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_copy_source = False
