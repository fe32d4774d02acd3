"""Code hosting over real git objects, with all tools of the public GitHub server.

Read `objects.py` first (git's objects in the database), then `hosting.py`, `tools.py`, `issues.py`, `pulls.py` and
`pages.py`; `loading.py` fills it with seed data or real repositories, and `checkout` hands a branch to the real git.
"""

from sandlot.apps.code import pages as pages
from sandlot.apps.code import pulls as pulls
from sandlot.apps.code.hosting import CODE as CODE
