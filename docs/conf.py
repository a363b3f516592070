"""Configuration of the documentation site."""

import inspect
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


# Methods of all estimators take the same things: they are described once, here.
PARAMETERS = {
    "X": (
        "array of shape (n, p1, …, pM)",
        "Samples, the first axis counts them. Flat rows if `feature_shape` is given.",
    ),
    "y": (
        "array of shape (n,), or (n, q1, …, qQ) where responses may be tensors",
        "Responses: numbers for regressors, labels for classifiers.",
    ),
    "sample_weight": (
        "array of shape (n,), optional",
        "How much each sample counts; by default all count the same.",
    ),
    "groups": (
        "array of shape (n,), optional",
        "The group of each sample. Samples of a group are left out together.",
    ),
    "covariates": (
        "array or table of n rows, optional",
        "What is known of the samples beside their tensors, such as age and site. It "
        "has coefficients of its own, without a penalty.",
    ),
    "classes": ("array, optional", "All labels there will be: needed the first time."),
    "solve": ("bool", "False only adds the samples; a later call solves for all."),
    "test": (
        "PermutationTest, optional",
        "Of `sltr.inference.permutation_test`: its p-value is shown.",
    ),
    "multioutput": (
        '"uniform_average", "variance_weighted", "raw_values" or array',
        "How scores of several responses are averaged, as in scikit-learn.",
    ),
    "level": (
        "float, optional",
        "Share of new samples to cover.",
    ),
    "repetitions": ("int", "How many draws, or folds, of each condition."),
}


def add_parameters(app, what, name, obj, options, lines):
    """Add the parameters to methods whose docstring has no list of them."""
    listed = any(line.strip() == "Parameters" for line in lines)
    if what != "method" or listed or not name.startswith("sltr."):
        return
    names = [n for n in inspect.signature(obj).parameters if n != "self"]
    unknown = [n for n in names if n not in PARAMETERS]
    if unknown:
        logging.getLogger(__name__).warning("%s: describe %s", name, unknown)
    known = [n for n in names if n in PARAMETERS]
    if known:
        lines += ["", "Parameters", "----------"]
        for one in known:
            kind, text = PARAMETERS[one]
            lines += [f"{one} : {kind}", f"    {text}"]
        lines.append("")


def setup(app):
    """Teach Sphinx to write MathML, by the converter that docutils has."""
    # Before numpydoc, which reads the list.
    app.connect("autodoc-process-docstring", add_parameters, priority=400)
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
