import tomllib

import pytest

import sandlot
from sandlot import JudgeCheck, PythonCheck, Rubric, Task
from sandlot.core.errors import ConfigError
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, to_toml, write_environment

CHECK = PythonCheck(id="right", ref="sandlot:answer_matches", args={"pattern": "x"}, points=2)


def test_a_written_environment_is_loaded_with_all_that_was_in_the_draft(tmp_path):
    judged = JudgeCheck(id="polite", prompt="It is polite.", choices=("no", "partly", "yes"))
    tasks = [
        Task("a", prompt="say x", data={"n": [1, {"b": None}]}, key={"k": "x"}, limits={"turns": 3}, tags=("easy",)),
        Task("b"),
    ]
    draft = EnvironmentDraft(
        name="written",
        settings={"description": 'A "quoted" line\nand\x7fmore é 😀', "limits": {"turns": 5}, "tools": [], "image": None},
        tasks=tasks,
        rubrics={"default": Rubric(checks=(CHECK,)), "other": Rubric(checks=(CHECK, judged))},
    )
    write_environment(tmp_path, draft)
    env = sandlot.load(tmp_path)
    assert (env.name, env.description, env.limits.turns) == ("written", draft.settings["description"], 5)
    assert sandlot.tasks_of(env) == tasks
    assert env.marked.rubrics == dict(draft.rubrics)


def test_two_tasks_with_one_id_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="two tasks have the id `a`"):
        write_environment(tmp_path, EnvironmentDraft(name="x", tasks=[Task("a"), Task("a")], rubrics={}))


def test_names_become_valid_ids():
    assert Task(task_id("../Hello world/…é")).id == "Hello-world"
    assert task_id("///") == "task"
    assert environment_name(" a/b ") == "a-b"


def test_toml_has_tables_after_values():
    settings = {"a": {"b": 1, "c": {"d": True}}, "e": [{"f": "x"}, {"f": "y"}], "g": ["h"], "odd key": 1.5}
    assert tomllib.loads(to_toml(settings)) == settings
    with pytest.raises(ConfigError, match="cannot be written as TOML"):
        to_toml({"a": None})
