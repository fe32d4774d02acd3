"""Reading code: in which part each function runs, and what its names may hold."""

import pytest

from builders.static_cases import HEAD, case_of, codes, found
from sandlot.audit.probes.panel import STATIC as PROBES
from sandlot.audit.probes.static import outside
from sandlot.audit.probes.static.code import Code, Part, read_code
from sandlot.audit.probes.static.flow import Flow, Holds
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.syntax import parse_python


def code_of(source: str = "", **fields) -> Code:
    return Code(case_of(source, **fields).description)


def parts(code: Code, name: str) -> set[Part]:
    return next(function.parts for function in code.functions if function.name == name)


def test_a_decorator_gives_the_part_and_callees_inherit_it():
    code = code_of("""
TABLE = {"a": deeper}

def deeper(x):
    return x

def helper(x):
    return TABLE["a"](x)

def idle():
    return 0

@env.check(points=1)
def right(evidence, task):
    return helper(evidence.answer)

@env.tool
async def look(world, what: str):
    return helper(what)
""")
    assert parts(code, "right") == {Part.CHECK}
    assert parts(code, "helper") == parts(code, "deeper") == {Part.CHECK, Part.TOOL}
    assert parts(code, "idle") == set()


def test_calls_are_followed_into_other_files():
    code = code_of(
        sources={
            "environment.py": HEAD + "from .inner.deep import helper as h\nfrom . import near\n"
            "@env.setup\ndef put(world, task):\n    h(world)\n    near.other()\n",
            "inner/deep.py": "def helper(world):\n    return 1\n",
            "near.py": "def other():\n    return 1\n",
            "apart.py": "def stranger():\n    return 1\n",
        }
    )
    assert parts(code, "helper") == parts(code, "other") == {Part.SETUP}
    assert parts(code, "stranger") == set()
    assert {module.path for module in code.imported()} == {"environment.py", "inner/deep.py", "near.py"}


def test_a_folder_gives_the_parts_by_files_and_rubrics():
    rubric = Rubric(checks=(PythonCheck(id="a", ref="checks:right"),))
    code = code_of(
        sources={
            "environment.toml": "name = 'x'",
            "checks.py": "def right(evidence, task):\n    return True\ndef unused(evidence):\n    return True\n",
            "world.py": "def setup(world, task):\n    pass\n",
            "tasks.py": "def tasks(rng):\n    yield 1\n",
        },
        rubrics={"default": rubric},
    )
    assert parts(code, "right") == {Part.CHECK}
    assert parts(code, "setup") == {Part.SETUP}
    assert parts(code, "tasks") == {Part.TASKS}
    assert parts(code, "unused") == set()


def test_a_one_function_environment_is_task_world_and_check_at_once():
    code = code_of("""
from sandlot import environment as made, Ask, Score

def tool_of_mine(what: str) -> str:
    return what

@made("adds", tasks=3, tools=[tool_of_mine])
def adds(rng):
    answer = yield Ask("1+1?", golden="2")
    yield Score(answer == "2")
""")
    assert parts(code, "adds") == {Part.TASKS, Part.SETUP, Part.CHECK}
    assert Part.TOOL in parts(code, "tool_of_mine")


@pytest.mark.parametrize(
    "source",
    [
        "def broken(:",
        "\0",
        "x = " + "(" * 5000 + ")" * 5000,
        HEAD + "@env.check(points=1)\ndef f(evidence):\n  return " + "1 + " * 3000 + "1\n",
        "class A:\n  pass\nA().b.c().d[0]()\n",
    ],
    ids=["syntax", "null", "nested", "sum", "chain"],
)
async def test_code_that_cannot_be_read_is_left_alone(source):
    case = case_of(sources={"made.py": source})
    for probe in PROBES:
        assert await found(probe, case) == []


async def test_uncalled_code_is_not_reported():
    source = (
        "import time\ndef idle():\n    return time.time()\n@env.solution\nasync def solve(agent, task):\n    return time.time()\n"
    )
    assert await codes(outside.PROBE, source) == []


async def test_code_probes_do_not_apply_without_sources():
    case = case_of(sources={"tasks.jsonl": "{}"})
    assert outside.PROBE.applies(case) == "no Python sources were given"


# -- flow


def held(source: str, expression: str, function: str = "right") -> Holds:
    code = code_of(source)
    place = next(each for each in code.functions if each.name == function)
    return Flow(code).of(place, parse_python(expression, "eval").body)


CHECK = """
def cleaned(text):
    return text.strip().lower()

@env.check(points=1)
def right(evidence, task):
    said = cleaned(evidence.answer)
    words = said.split()
    for word in words:
        pass
    wanted = task.key["x"]
    file = evidence.read_text("/out")
    ok = said == wanted
    return ok
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("said", Holds.TEXT),
        ("said[1:]", Holds.TEXT),
        ("f'{said}!'", Holds.TEXT),
        ("words", Holds.DATA),
        ("word", Holds.DATA),
        ("wanted", Holds.KEY),
        ("file", Holds.TEXT),
        ("evidence.state['x']", Holds.DATA),
        ("ok", Holds.NOTHING),
        ("len(words)", Holds.DATA),
        ("42", Holds.NOTHING),
    ],
)
def test_the_agents_text_is_followed_to_the_verdict(expression, expected):
    assert held(CHECK, expression) == expected


def test_arguments_of_calls_are_followed():
    assert held(CHECK, "text", "cleaned") == Holds.TEXT


def test_only_text_arguments_of_tools_hold_the_agents_text():
    source = "@env.tool\nasync def find(world: World, what: str, count: int):\n    return what\n"
    assert held(source, "what", "find") == Holds.TEXT
    assert held(source, "count", "find") == held(source, "world", "find") == Holds.NOTHING


async def test_the_code_of_a_case_is_parsed_once_and_no_probe_changes_it():
    source = """
import random, time
SEEN = {}
@env.check(points=1)
def right(evidence, task):
    SEEN[task.id] = time.time()
    try:
        return round(float(evidence.answer)) == random.randint(1, 6)
    except Exception:
        return 1.0
"""
    case = case_of(source)
    assert read_code(case) is read_code(case)
    together = [(each.code, each.title) for probe in PROBES for each in await found(probe, case)]
    apart = [(each.code, each.title) for probe in PROBES for each in await found(probe, case_of(source))]
    assert len(apart) > 2
    assert together == apart
