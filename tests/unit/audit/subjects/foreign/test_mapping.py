"""How a task and an answer become arguments."""

import pytest

from sandlot.audit.subjects.foreign.mapping import fill_arguments, read_mapping
from sandlot.core.errors import ConfigError

LINE = {"question": "2+3?", "metadata": {"seed": 4, "deep": {"er": [1]}}, "answer": "of the file"}


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("{answer} {golden}", ["mine", "5"], {}),
        ("answer={answer} expected={golden}", [], {"answer": "mine", "expected": "5"}),
        ("{answer} entry={task}", ["mine"], {"entry": LINE}),
        ("{answer} seed={metadata.seed} list={metadata.deep.er}", ["mine"], {"seed": 4, "list": [1]}),
        ("{answer} 0.5 mode=exact flag=true 'a b'", ["mine", 0.5, "a b"], {"mode": "exact", "flag": True}),
        ("q={prompt} {answer}", ["mine"], {"q": "2+3?"}),
    ],
)
def test_arguments_are_filled_by_name_and_by_position(text, args, kwargs):
    assert fill_arguments(read_mapping(text), LINE, "5", "2+3?", "mine") == (args, kwargs)


def test_a_field_that_is_not_there_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match=r"`\{meta\}` is not a field of the task; there are: .*`metadata`"):
        fill_arguments(read_mapping("{answer} {meta}"), LINE, "5", "?", "mine")


def test_a_grader_that_would_never_hear_the_answer_is_refused():
    with pytest.raises(ConfigError, match="would not get the answer"):
        read_mapping("{golden} {task}")
