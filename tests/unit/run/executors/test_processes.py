"""Worker processes: how many, and what they are told. What holds for all workers is in `test_pool.py`."""

import os
import subprocess
import sys
import time

import pytest

from drive.command_line import refused
from drive.running import is_running
from sandlot import Environment
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.run.config import RunConfig
from sandlot.run.executors.processes import num_processes
from sandlot.run.executors.setup import setup_of
from sandlot.run.results import Run
from sandlot.wiring.config import ModelConfig
from worlds.executors import CHORES, opened, plan_of

pytestmark = pytest.mark.timeout(300)


def test_an_environment_without_a_file_and_a_cap_need_one_process(tmp_path):
    plan = plan_of(tmp_path)
    plain = Environment("plain")
    plain.source = None
    with pytest.raises(ConfigError, match="not in a file"):
        setup_of(type(plan)(env=plain, config=plan.config, fingerprint="", cache=tmp_path, stop=print), 2)
    capped = RunConfig(env=str(CHORES), model=ModelConfig(spec="openai:m@http://x", max_total_tokens=1000))
    with pytest.raises(ConfigError, match="cap"):
        setup_of(plan_of(tmp_path, capped), 2)


def test_connections_and_ready_sandboxes_are_divided(tmp_path):
    setup = setup_of(
        plan_of(tmp_path, RunConfig(env=str(CHORES), model=ModelConfig(spec="openai:m@http://x", connections=64))), 4
    )
    assert (setup.config.model.connections, setup.pool) == (16, 4)


def test_the_models_of_seats_count_too(sandlot, tmp_path):
    def seated(**options) -> RunConfig:
        seat = ModelConfig(spec="openai:m@http://x", **options)
        return RunConfig(env=str(CHORES), model=ModelConfig(spec="scripted:golden"), seats={"seller": seat})

    setup = setup_of(plan_of(tmp_path, seated(connections=64)), 4)
    assert setup.config.seat_models["seller"].connections == 16
    with pytest.raises(ConfigError, match="cap"):
        setup_of(plan_of(tmp_path, seated(max_total_tokens=1000)), 4)
    said = refused(
        sandlot(
            "run", "haggle", "--model", "rookie", "--seat", "seller=openai:m@http://x", "--max-total-tokens", "9", cwd=tmp_path
        )
    )
    assert "--max-total-tokens counts what --model spends, not the models of --seat" in said


@pytest.mark.parametrize("given", ["0", "-1", "many", "1000", "2.5"])
def test_a_number_of_processes_that_is_none_is_refused(given):
    with pytest.raises(ConfigError, match="give a number from 1 to"):
        num_processes(given)


def test_the_command_takes_it_and_refuses_what_is_not_there(sandlot, tmp_path):
    done = sandlot(
        "run", CHORES, "--model", "scripted:golden", "--task", "short-0", "--on", "processes:1", "--json", cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert done.json["scored"] == 1
    said = refused(sandlot("run", CHORES, "--model", "scripted:golden", "--on", "clouds:2", cwd=tmp_path))
    assert "no executor `clouds`" in said
    assert "`processes`" in said


async def test_a_worker_that_cannot_start_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(HarnessError, match="ended with exit code 1 before it was ready"):
        async with opened("processes", plan_of(tmp_path)):
            pass


def test_no_worker_outlives_a_run_that_is_killed(tmp_path):
    command = [sys.executable, "-m", "sandlot", "run", CHORES, "--model", "scripted:golden", "--on", "processes:2", "--json"]
    tasks = ["--task", "endless-0", "--task", "endless-1"]
    process = subprocess.Popen([*map(str, command), *tasks], cwd=tmp_path, env={**os.environ, "MARKS": str(tmp_path)})
    while len(list(tmp_path.glob("began-*"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    workers = {int(path.name.split("-")[1]) for path in tmp_path.glob("began-*")}
    process.kill()
    process.wait()
    assert len(workers) == 2
    for pid in workers:
        while is_running(pid):
            time.sleep(0.05)
    assert len(list(tmp_path.glob("closed-*"))) == 2, "their worlds were closed"
    assert Run(next((tmp_path / "runs").iterdir())).verdict == "incomplete"
