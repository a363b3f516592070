"""Configuration of the documentation site."""

import warnings
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import sltr

project = "sltr"
author = "The sltr developers"
project_copyright = author
version = release = sltr.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "gallery/GALLERY_HEADER.rst",
    "sg_execution_times.rst",
    "**.ipynb",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath", "deflist"]
# Browsers draw MathML by themselves: no script, and nothing to download.
html_math_renderer = "mathml"
templates_path = ["_templates"]

# scikit-learn's inherited docstrings refer to its own site.
suppress_warnings = ["ref.ref"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "sltr"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
}
html_static_path = ["_static"]
html_css_files = ["sltr.css"]
html_show_sourcelink = False
# Pages at the top have nothing below them; the gallery has.
html_sidebars = {"*": []}

# A warning of an example is shown by the gallery, and is not an error of the build.
warnings.filterwarnings("ignore", message=".*Agg.*")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": "demo\\.py",
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),
    "show_signature": False,
    "matplotlib_animations": False,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
}


def mathml(node, block):
    """Return a formula as MathML; a command that is not known is a warning."""
    # docutils knows these dots by their other name only.
    tex = node.astext().replace(r"\dots", r"\ldots")
    try:
        return tex2mathml(tex, as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", tex, error, location=node)
        return f"<code>{escape(tex)}</code>"


def inline_math(self, node):
    """Write a formula in a line of text as MathML."""
    self.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def displayed_math(self, node):
    """Write a formula of its own line as MathML."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(mathml(node, block=True) + "</div>")
    raise nodes.SkipNode


def setup(app):
    """Teach Sphinx to write MathML, by the converter that docutils has."""
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
