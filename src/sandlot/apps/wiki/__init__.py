"""Wiki, with the tools of the public Confluence server.

Read `declared.py` first, then `tools.py`; `loading.py` fills it with seed data. Offered is a named subset of the recorded tools:
pages with versions, search by CQL, labels, comments, restrictions. Not offered: attachments, templates, inline comments, views.
"""

from sandlot.apps.wiki import tools as tools
from sandlot.apps.wiki.declared import WIKI as WIKI
