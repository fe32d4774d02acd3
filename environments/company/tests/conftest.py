from pathlib import Path

import pytest

from sandlot import load
from sandlot.env.apps import base_of


@pytest.fixture(scope="session", autouse=True)
def firm_base() -> None:
    """The two years of records that every world begins with: made once, in the set-up, and not by the test that is first."""
    base_of(load(Path(__file__).parents[1]))
