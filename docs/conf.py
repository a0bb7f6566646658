"""Sphinx configuration: sphinx -W -b html docs docs/_build."""

import re

project = "rb_interp"
author = "The rb_interp authors"
copyright = "2026, the rb_interp authors"
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "conftest.py"]
html_theme = "furo"
html_title = "rb_interp"


def setup(app):
    app.connect("source-read", without_blank_line)


def without_blank_line(app, name, text):
    """Drop the blank line that a doctest needs before its closing fence."""
    text[0] = re.sub(r"\n\n```$", "\n```", text[0], flags=re.MULTILINE)
