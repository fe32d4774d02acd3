"""The same audit twice: the same seed gives the same report, however many probes run at the same time."""

import json
from pathlib import Path
from typing import Any

import pytest

import sandlot
from sandlot.audit.reports.folder import as_json

ROOT = Path(__file__).parents[2]
TIMES = {"started", "seconds"}


def timeless(thing: Any) -> Any:
    """A report without its times."""
    if isinstance(thing, dict):
        return {name: timeless(value) for name, value in thing.items() if name not in TIMES}
    return [timeless(each) for each in thing] if isinstance(thing, list) else thing


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("env", ["environments/arithmetic", "environments/helpdesk", "benchmarks/environments/wholesaler.py"])
def test_the_same_seed_gives_the_same_report(env):
    one, other = (
        json.dumps(timeless(json.loads(as_json(sandlot.audit(ROOT / env, limit=3, jobs=jobs, runs=None))))) for jobs in (1, 4)
    )
    assert one == other
