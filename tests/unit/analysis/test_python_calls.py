"""`sandlot health`, `triage`, `tokens` and `audit` are one call each in Python, with documented parameters."""

import inspect
import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from builders.model_folders import FAMILIES
from fakes.token_models import TinyModel
from sandlot.analysis.health.health import health
from sandlot.analysis.tokens.audit import check_tokens
from sandlot.analysis.triage.labels import label_rollouts
from sandlot.analysis.triage.triage import triage
from sandlot.audit.audit import audit
from sandlot.core.ports.model import Sampling
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.wiring.models import SCHEMES

ROOT = Path(__file__).parents[3]
FUNCTIONS = (check_tokens, label_rollouts)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_the_example_of_a_docstring_runs(function, tmp_path, monkeypatch):
    @asynccontextmanager
    async def open_here(_rest, _model, _agent, _env, _spend):
        yield token_policies(TinyModel(), open_renderer(FAMILIES["rookie"](tmp_path)), Sampling(max_tokens=4))

    monkeypatch.setitem(SCHEMES, "rookie", open_here)  # no engine of its own process, which imports torch again
    (tmp_path / "environments").symlink_to(ROOT / "environments")
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```", inspect.getdoc(function) or "", re.DOTALL)
    assert found is not None
    exec(found[1], {})


@pytest.mark.parametrize("function", [*FUNCTIONS, audit, health, triage], ids=lambda each: each.__name__)
def test_every_parameter_is_documented(function):
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^- (.*?):", inspect.getdoc(function) or "", re.MULTILINE))))
    assert documented >= set(inspect.signature(function).parameters)
