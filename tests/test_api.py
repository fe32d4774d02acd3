"""The front door, held by a snapshot: each addition is a reviewed decision."""

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
    "Limits",
    "McpServer",
    "Persona",
    "Recipe",
    "Run",
    "SandlotError",
    "Score",
    "Scored",
    "Split",
    "Task",
    "ToolError",
    "Trace",
    "World",
    "environment",
    "load",
    "run",
    "run_async",
    "tasks_from",
    "train",
]


def test_the_front_door_hands_out_these_names():
    assert sorted(sandlot.__all__) == NAMES


def test_every_name_is_there():
    assert all(getattr(sandlot, name) is not None for name in NAMES)


def test_importing_does_no_work():
    code = (
        "import sys, sandlot; print(len([m for m in sys.modules if m.split('.')[0] in ('anyio','msgspec','numpy','mcp','rich')]))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "0"


def test_train_is_the_function_even_after_its_folder_was_imported():
    code = "import sandlot.train.recipe, sandlot; from sandlot import train; assert callable(train) and sandlot.train is train"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_run_is_the_function_even_after_its_folder_was_imported():
    code = "import sandlot.run.summary, sandlot; from sandlot import run; assert callable(run) and sandlot.run is run, run"
    subprocess.run([sys.executable, "-c", code], check=True)


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
    assert sorted(sys.modules["sandlot.train"].__all__) == [
        "Clip", "Evaluation", "Imitate", "Optimisation", "PolicyGradient", "Ppo", "Prefer", "Recipe", "Sampling",
    ]  # fmt: skip
