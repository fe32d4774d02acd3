"""The front door, held by a snapshot: each addition is a reviewed decision."""

import subprocess
import sys

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
