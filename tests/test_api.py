"""The front door, held by a snapshot: each addition is a reviewed decision."""

import importlib
import pydoc
import re
import subprocess
import sys

import pytest

import sandlot

NAMES = [
    "Agent",
    "Ask",
    "Cancelled",
    "Constraint",
    "End",
    "Environment",
    "Evidence",
    "Failed",
    "Image",
    "JudgeCheck",
    "Limits",
    "McpServer",
    "Persona",
    "PythonCheck",
    "Recipe",
    "Rubric",
    "Run",
    "SandlotError",
    "Score",
    "Scored",
    "Seat",
    "Split",
    "Task",
    "ToolError",
    "Trace",
    "World",
    "audit",
    "calibrate",
    "environment",
    "health",
    "import_environment",
    "load",
    "run",
    "run_async",
    "seat_trace",
    "tasks_from",
    "tasks_of",
    "to_gym",
    "to_pettingzoo",
    "train",
    "triage",
]
NEED_TORCH = ["Recipe", "train"]


def test_the_front_door_hands_out_these_names():
    assert sorted([*sandlot.__all__, *NEED_TORCH]) == NAMES


def test_every_name_is_there():
    assert all(getattr(sandlot, name) is not None for name in NAMES)


def test_importing_does_no_work():
    code = (
        "import sys, sandlot; print(len([m for m in sys.modules if m.split('.')[0] in ('anyio','msgspec','numpy','mcp','rich')]))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "0"


def test_a_function_is_kept_after_the_package_of_the_same_name_was_imported():
    code = """
import sandlot, sandlot.run.summary, sandlot.calibrate.tasks.rule, sandlot.audit.verdict
from sandlot import audit, calibrate, run
assert callable(run) and callable(calibrate) and callable(audit)
assert (sandlot.run, sandlot.calibrate, sandlot.audit) == (run, calibrate, audit)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.timeout(300)  # imports torch, which other tests of this process need too
def test_the_function_that_trains_is_kept_too():
    importlib.import_module("sandlot.train.recipe")
    from sandlot import train

    assert callable(train)
    assert sandlot.train is train


def test_importing_everything_needs_no_torch():
    code = (
        "import sys; from sandlot import *; from sandlot.ports import *; assert 'torch' not in sys.modules; assert callable(run)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("door", ["sandlot.train", "sandlot.ports"])
def test_every_name_of_a_door_is_there_and_in_its_overview(door):
    module = importlib.import_module(door)
    words = set(re.findall(r"\w+", module.__doc__))
    assert [name for name in module.__all__ if getattr(module, name) is None or name not in words] == []
    assert [name for name in module.__all__ if not getattr(module, name).__doc__] == []


def test_dir_shows_the_front_door_and_nothing_else():
    assert dir(sandlot) == NAMES


def test_the_overview_of_the_module_names_everything():
    words = set(re.findall(r"\w+", sandlot.__doc__))
    assert [name for name in NAMES if name not in words] == []


def test_help_works_and_begins_with_the_overview():
    said = pydoc.plain(pydoc.render_doc(sandlot))
    assert "Write an environment (docs/guides/write-an-environment.md)" in said[:1500]


def test_a_name_mistyped_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match="did you mean `Environment`"):
        sandlot.Enviroment  # noqa: B018 - reading it is the test


WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
import sandlot
assert "train" not in dir(sandlot)
try:
    sandlot.train
except ImportError as error:
    print(error)
"""


def test_without_torch_training_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout == "`sandlot.train` needs torch: `pip install 'sandlot[torch]'`\n"


def test_recipes_import_from_one_place():
    from sandlot.train import Evaluation, Optimisation, PolicyGradient, Recipe, Sampling
    from sandlot.train.recipe import Evaluation as Defined

    assert Evaluation is Defined
    assert Recipe(name="x", env="x", algorithm=PolicyGradient(), optimisation=Optimisation(), sampling=Sampling()).steps == 50
    assert len(sys.modules["sandlot.train"].__all__) == 49
