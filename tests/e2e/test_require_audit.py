"""`train --require-audit` takes the audit of exactly this environment: these files, at this place."""

import pytest

from drive.command_line import refused

pytestmark = pytest.mark.timeout(300)
ADD = """
import helper
from sandlot import Ask, Score, environment

@environment("add", tasks=2)
def add(rng):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}? Answer with the number alone.", golden=str(a + b))
    yield Score(helper.right(answer, str(a + b)))
"""
HELPER = "def right(answer, golden):\n    return answer.strip() == golden\n"
RECIPE = """
from sandlot import Recipe
from sandlot.train.recipe import Evaluation

def recipe():
    return Recipe(name="sums", env="add.py", model="rookie", steps=1, evaluation=Evaluation(every=1))
"""


@pytest.mark.system
def test_a_changed_helper_or_a_namesake_elsewhere_has_no_audit(sandlot, tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
        (folder / "add.py").write_text(ADD)
        (folder / "helper.py").write_text(HELPER)
        (folder / "recipe.py").write_text(RECIPE)
    words = ("train", "recipe.py", "--require-audit", "--dry-run", "--runs", tmp_path / "runs")
    assert "has no audit" in refused(sandlot(*words, cwd=here))
    done = sandlot("audit", "add.py", "--runs", tmp_path / "runs", cwd=here)
    assert done.code == 0, done
    allowed = sandlot(*words, cwd=here)
    assert allowed.code == 0, allowed
    assert f"`add` at {elsewhere}/add.py has no audit" in refused(sandlot(*words, cwd=elsewhere))
    (here / "helper.py").write_text("def right(answer, golden):\n    return True\n")
    assert "has changed since it was audited" in refused(sandlot(*words, cwd=here))
