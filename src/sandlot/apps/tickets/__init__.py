"""Tickets, with the tools of the public Jira server.

Read `declared.py` first, then `writing.py`; `loading.py` fills it with seed data. Offered is a named subset of the recorded
tools: issues, search by JQL, comments, links, work, sprints, versions. Not offered: attachments, forms, service desk queues,
development information.
"""

from sandlot.apps.tickets import pages as pages
from sandlot.apps.tickets import planning as planning
from sandlot.apps.tickets import writing as writing
from sandlot.apps.tickets.declared import TICKETS as TICKETS
