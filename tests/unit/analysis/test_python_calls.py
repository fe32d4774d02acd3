"""`sandlot health`, `triage`, `tokens` and `audit` are one call each in Python, with documented parameters."""

import inspect
import re
from pathlib import Path

import pytest

from sandlot.analysis.health.health import health
from sandlot.analysis.tokens.audit import check_tokens
from sandlot.analysis.triage.labels import label_rollouts
from sandlot.analysis.triage.triage import triage
from sandlot.audit.audit import audit

ROOT = Path(__file__).parents[3]
FUNCTIONS = (check_tokens, label_rollouts)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_the_example_of_a_docstring_runs(function, tmp_path, monkeypatch):
    (tmp_path / "environments").symlink_to(ROOT / "environments")
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```", inspect.getdoc(function) or "", re.DOTALL)
    assert found is not None
    exec(found[1], {})


@pytest.mark.parametrize("function", [*FUNCTIONS, audit, health, triage], ids=lambda each: each.__name__)
def test_every_parameter_is_documented(function):
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^- (.*?):", inspect.getdoc(function) or "", re.MULTILINE))))
    assert documented >= set(inspect.signature(function).parameters)
