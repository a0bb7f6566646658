"""Sphinx configuration: sphinx -W -b html docs docs/_build."""

import re

project = "rb_interp"
author = "The rb_interp authors"
copyright = "2026, the rb_interp authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "conf.py"]
html_theme = "furo"
html_title = "rb_interp"
html_static_path = ["_static"]
html_css_files = ["pages.css"]

# Notebooks are Python files that jupytext opens; each build runs them.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "remove"  # progress bars, and notices of other packages

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"


def setup(app):
    app.connect("source-read", without_blank_line)
    app.connect("include-read", lambda app, path, page, text: without_blank_line(app, page, text))


def without_blank_line(app, name, text):
    """Drop the blank line that a doctest needs before its closing fence."""
    text[0] = re.sub(r"\n\n```$", "\n```", text[0], flags=re.MULTILINE)
