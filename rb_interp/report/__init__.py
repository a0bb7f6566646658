"""The report of a run: one self-contained HTML file, its JSON twin, and tables for the terminal."""
