"""Limits that were declared and do not hold: found, stored with the run, and shown."""

import json

import sandlot
from sandlot import Environment, Limits, Task
from sandlot.run.declared import overridden_limits
from sandlot.train.training_env import TrainingEnv


def an_env(*tasks, **options):
    env = Environment("imported", **options)
    env.tasks(lambda rng: list(tasks))
    env.check(points=1)(always_right)
    return env


def always_right(evidence):
    return True


def test_limits_that_hold_as_they_were_declared_are_not_listed():
    task = Task("one", declared={"time_s": 30.0, "cpus": 1, "network": "none"}, limits={"time_s": 30.0})
    assert overridden_limits(an_env(), [task, Task("two")]) == ()


def test_what_a_format_declares_and_another_limit_replaces_is_listed_once_for_all_its_tasks():
    tasks = [Task(f"t{number}", declared={"memory_mib": 4096, "build_s": 600}) for number in range(3)]
    memory, build = overridden_limits(an_env(), tasks)
    assert (memory.name, memory.declared, memory.here, memory.tasks, memory.task) == ("memory_mib", 4096, 2048, 3, "t0")
    assert memory.describe() == "memory_mib: 4096 declared, 2048 here (t0 and 2 more)"
    assert build.describe() == "build_s: 600 declared, not limited here (t0 and 2 more)"


def test_limits_that_a_recipe_gives_in_place_of_the_environments_are_listed():
    env = TrainingEnv(env=an_env(limits=Limits(turns=9, time_s=50.0)), limits={"turns": 3}).load()
    (turns,) = overridden_limits(env, [Task("one"), Task("two", limits={"turns": 5})])
    assert (turns.name, turns.declared, turns.here, turns.task) == ("turns", 9, 3, "one")


def test_a_run_stores_them_and_its_summary_shows_them(tmp_path, capsys):
    from sandlot.cli.views.summary import print_summary

    task = Task("one", prompt="Go.", declared={"turns": 40})
    run = sandlot.run(an_env(task, limits=Limits(turns=4)), "scripted:constant:done", runs=tmp_path)
    stored = json.loads((run.path / "manifest.json").read_text())
    assert stored["overridden_limits"] == [{"name": "turns", "declared": 40, "here": 4, "tasks": 1, "task": "one"}]
    print_summary(run, run.summary())
    assert "turns: 40 declared, 4 here (one)" in capsys.readouterr().out
