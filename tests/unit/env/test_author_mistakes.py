"""What an author gets wrong is answered with the place, the value and the fix."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.limits import Constraint
from sandlot.env.environment import Environment
from sandlot.env.function import Ask, environment
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of


def test_a_mark_that_does_not_exist_is_answered_with_the_one_that_was_meant():
    with pytest.raises(AttributeError, match="has no `setpu`; did you mean `setup`"):
        Environment("e").setpu  # noqa: B018 - looking is the mistake


def test_a_check_without_parentheses_is_told_to_say_its_worth():
    with pytest.raises(ConfigError, match=r"test_author_mistakes.py:\d+.*@env.check\(points=1\)"):
        Environment("e").check(lambda evidence, task: True)


@pytest.mark.parametrize("points", ["3", True, float("nan"), None])
def test_points_that_are_no_number_are_refused(points):
    with pytest.raises(ConfigError, match="points must be a finite number"):
        Environment("e").check(points=points)


@pytest.mark.parametrize("option", ["requires", "tags"])
def test_a_text_where_several_are_asked_for_is_not_taken_letter_by_letter(option):
    with pytest.raises(ConfigError, match=f"{option} is 'right'; give a list"):
        Environment("e").check(points=1, **{option: "right"})


def test_one_constraint_where_several_are_asked_for_is_refused():
    with pytest.raises(ConfigError, match=r"constraints is Constraint.*give a list"):
        Environment("e", constraints=Constraint(id="c", tool="t"))


def test_a_state_in_the_place_of_what_makes_one_is_refused():
    with pytest.raises(ConfigError, match=r"state=\{\} is not callable; give a class or function"):
        Environment("e", state={})


def test_a_function_that_never_yields_is_refused_when_it_is_marked():
    with pytest.raises(ConfigError, match=r"test_author_mistakes.py:\d+: `plain` must `yield Ask"):

        @environment("e", tasks=1)
        def plain(rng):
            return rng


def test_a_number_of_tasks_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match="tasks='20'; give a positive whole number"):
        environment("e", tasks="20")


def test_an_ask_that_is_no_text_says_so():
    with pytest.raises(TypeError, match="a int is not text"):
        Ask(3)


def test_a_bad_task_id_is_found_in_the_authors_file(tmp_path):
    path = tmp_path / "env.py"
    path.write_text(
        "from sandlot import Environment, Task\nenv = Environment('e')\n@env.tasks\ndef tasks(rng):\n    yield Task('a b')\n"
        "@env.check(points=1)\ndef right(evidence, task):\n    return True\n"
    )
    with pytest.raises(ConfigError, match=r"env.py:3: task id 'a b'"):
        tasks_of(load(path))


def test_a_wrong_declaration_is_found_in_the_authors_file(tmp_path):
    path = tmp_path / "env.py"
    path.write_text("from sandlot import Constraint\nrule = Constraint(id='c', tool='t', on_breach='explode')\n")
    with pytest.raises(ConfigError, match=r"env.py:2: constraint `c`: on_breach is 'explode'"):
        load(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [("[limits]\nturn = 3", "unknown field `turn`.*known keys: turns, tokens"), ('sytem = "x"', "known keys: name, description")],
)
def test_an_unknown_key_is_answered_with_the_keys_of_its_own_table(tmp_path, line, said):
    (tmp_path / "environment.toml").write_text(f'name = "e"\n{line}\n')
    with pytest.raises(ConfigError, match=said):
        load(tmp_path)
