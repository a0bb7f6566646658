"""Sphinx configuration: sphinx -W -b html docs docs/_build."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
project = "rb_interp"
author = "The rb_interp authors"
copyright = "2026, the rb_interp authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "conf.py", "larger.py", "made_pages.py", "settings_tables.py"]
html_theme = "furo"
html_title = "rb_interp"
html_static_path = ["_static"]
html_extra_path = ["larger.py"]  # the page that shows it links to it
html_css_files = ["pages.css"]

# Notebooks are Python files that jupytext opens; a build runs them.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "remove"  # progress bars, and notices of other packages
suppress_warnings = ["myst-nb.lexer"]  # a notebook that was not run does not name its language

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"


def setup(app):
    app.connect("source-read", without_blank_line)
    app.connect("source-read", with_tables_of_settings)
    app.connect("include-read", lambda app, path, page, text: without_blank_line(app, page, text))


def with_tables_of_settings(app, name, text):
    """Put the tables that are made from the fields into configuration.md."""
    if name == "configuration":
        from settings_tables import tables

        text[0] = text[0].replace("<!-- tables of all settings -->", tables())


def without_blank_line(app, name, text):
    """Drop the blank line that a doctest needs before its closing fence."""
    text[0] = re.sub(r"\n\n```$", "\n```", text[0], flags=re.MULTILINE)
