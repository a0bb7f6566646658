"""The report of a run: one self-contained HTML file, a JSON file with the same content, and
terminal tables."""
