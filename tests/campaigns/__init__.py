"""Campaigns: many seeded tries to break something. Each ends in equal results or in one sentence.

``cd tests && python -m campaigns`` runs all of them; a few cases of each run with the tests. A campaign is a module
with

- ``LONG`` and ``SHORT``: how many cases there are, and how many of them run with the tests;
- ``prepare(folder) -> prepared``: what all cases share, made once in a folder of the campaign;
- ``case(number, prepared, folder) -> Outcome``: one case, fixed by its number, in an empty folder of its own.
"""

NAMES = ("kills", "races", "surroundings", "damage", "foreign", "settings", "calls")
