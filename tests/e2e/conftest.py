import pytest

from drive.command_line import Nursery


@pytest.fixture(scope="session")
def sandlot():
    """Run a command: `sandlot("show", "runs/x", cwd=folder)`."""
    with Nursery() as nursery:
        yield nursery.run
