"""Configuration of the Sphinx site."""

import re

import skattn

project = "skattn"
author = "The skattn developers"
copyright = "The skattn developers"
version = release = skattn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "literal"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# Examples in docstrings run with the tests; here only those of the pages do.
doctest_test_doctest_blocks = ""

html_theme = "pydata_sphinx_theme"
html_title = f"skattn {release}"
html_theme_options = {"show_prev_next": False}
html_show_sourcelink = False


def leave_out_routing(app, what, name, obj, skip, options):
    """Hide scikit-learn's generated ``set_*_request`` methods.

    Their docstrings refer to pages of scikit-learn's documentation.
    """
    is_routing = name.startswith("set_") and name.endswith("_request")
    return True if is_routing or name == "get_metadata_routing" else None


def escape_names_in_shapes(app, what, name, obj, options, lines):
    """Keep the shape ``(n_features_in_,)`` from reading as a link to a target."""
    lines[:] = [
        re.sub(
            r"\((?:1, )?n_[^)`]*\)",
            lambda shape: re.sub(r"_(?!\w)", r"\_", shape[0]),
            line,
        )
        for line in lines
    ]


def unlink_references(app, what, name, obj, options, lines):
    """Keep the words of references to pages of scikit-learn, whose labels are not here.

    Inherited methods have its docstrings.
    """
    lines[:] = [re.sub(r":ref:`([^`<]+?)\s*<[^`]*>`", r"\1", line) for line in lines]


def setup(app):
    app.connect("autodoc-skip-member", leave_out_routing)
    # After numpydoc, which connects with the default priority of 500.
    app.connect("autodoc-process-docstring", escape_names_in_shapes, priority=600)
    app.connect("autodoc-process-docstring", unlink_references, priority=601)
