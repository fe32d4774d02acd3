"""Wiki, with the tools of the public Confluence server.

Read `declared.py` first, then `reading.py`, `writing.py` and `annotations.py` (the tools) and `pages.py`; `loading.py` fills it
with seed data. Offered is a named subset of the recorded tools: pages with versions, search by CQL, labels, comments,
restrictions. Not offered: attachments, templates, inline comments, views.
"""

from sandlot.apps.wiki import annotations as annotations
from sandlot.apps.wiki import pages as pages
from sandlot.apps.wiki import writing as writing
from sandlot.apps.wiki.declared import WIKI as WIKI
