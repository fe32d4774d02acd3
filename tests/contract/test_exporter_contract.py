"""Our exporters, held to the suite that we ship."""

import shutil
from pathlib import Path

import pytest

from sandlot.env.load import load
from sandlot.interop.exporting import exporters
from sandlot.testing.exporter import *

IN_A_SANDBOX = ["harbor", "terminal-bench"]
"""Their tasks are played before they are written, in an image that is built the first time."""
KINDS = ["gymnasium", "inspect", "openenv", "pettingzoo", "verifiers"]
SUMS = Path(__file__).parent.parent / "foreign" / "interop" / "sums"
"""A folder environment in a sandbox, as Harbor's tasks are."""


def test_every_exporter_that_is_installed_is_held_to_the_suite():
    assert set(exporters()) == {*KINDS, *IN_A_SANDBOX}


@pytest.fixture(params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.system) for kind in IN_A_SANDBOX)])
def exporter(request):
    value = exporters()[request.param].load()
    return value() if isinstance(value, type) else value


@pytest.fixture
def env(exporter, tmp_path):
    if exporter.kind not in IN_A_SANDBOX:
        return make_sums(tmp_path / "home" / "sums")
    return load(Path(shutil.copytree(SUMS, tmp_path / "home" / "in-a-sandbox")))
