"""Drawings of tables: style, panels, legends, saving, and the pictures that several studies
share."""
