import pytest

from drive.command_line import Nursery


@pytest.fixture(scope="session")
def sandlot_with_torch():
    """The same for commands that train: torch is imported once."""
    with Nursery(torch=True) as nursery:
        yield nursery.run
