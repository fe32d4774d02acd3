"""Our files without a sandbox, held to the suite that we ship."""

import pytest

from sandlot.sandbox.memory import MemoryFiles
from sandlot.testing.files import *


@pytest.fixture
def files():
    return MemoryFiles()
