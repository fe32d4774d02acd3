"""An HR directory, with tools of a public BambooHR server and own ones.

Read `tools.py` first, then `pages.py`; `loading.py` fills it with seed data.
"""

from sandlot.apps.directory import pages as pages
from sandlot.apps.directory.tools import DIRECTORY as DIRECTORY
