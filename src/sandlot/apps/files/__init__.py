"""Files and folders, with all tools of the public filesystem server.

Read `tree.py` first, then `tools.py` and `pages.py`; `loading.py` fills it with seed data. The tree is the app's own: it is
not the sandbox's.
"""

from sandlot.apps.files import pages as pages
from sandlot.apps.files import tools as tools
from sandlot.apps.files.tree import FILES as FILES
