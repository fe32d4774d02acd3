"""CRM, with the tools of the public HubSpot server.

Read `objects.py` first, then `tools.py` and `pages.py`; `loading.py` fills it with seed data. Offered is a named subset of the
recorded tools: all but workflows, links into the product's own pages and the feedback link.
"""

from sandlot.apps.crm import pages as pages
from sandlot.apps.crm import tools as tools
from sandlot.apps.crm.objects import CRM as CRM
