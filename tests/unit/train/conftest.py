import pytest


@pytest.fixture(scope="session", autouse=True)
def what_an_optimiser_imports():
    """The first one of a process imports half of torch: no test of its own pays for it."""
    import torch._dynamo  # noqa: F401 - as it says
