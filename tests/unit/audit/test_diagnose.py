"""`sandlot diagnose`: what a few rollouts by known players say about an environment, each with rollouts that show it."""

import json

import pytest

from sandlot.audit.diagnose import FILE, choose_telling, diagnose
from sandlot.cli.views.diagnose import print_diagnosis, write_pages
from sandlot.core.errors import ConfigError
from sandlot.run.results import Run

ALWAYS = "@env.check(points=1)\ndef always(evidence, task):\n    return True\n"
NEVER = "@env.check(points=1)\ndef never(evidence, task):\n    return False\n"
ATTACK = "<script>document.title='owned'</script>\x1b]0;owned\x07"
HEAD = """
from sandlot import Environment, Limits, Task, ToolError

env = Environment("shop", system="Call `put` to store a number.", limits=Limits(turns=4))

@env.tasks
def tasks(rng):
    for number in range(3):
        yield Task(id=f"t{number}", prompt="Store it.", key={"n": number + 1})

@env.setup
async def setup(world, task):
    world.state["n"] = 0

@env.tool
def put(world, n: int) -> str:
    "Store a number."
    world.state["n"] = n
    return "stored"
"""
GOLDEN = """
@env.solution
async def solve(agent, task):
    await agent.call("put", n=task.key["n"])
"""
SOUND = """
@env.check(points=1)
def stored(evidence, task):
    return evidence.state["n"] == task.key["n"]
"""


def found_in(tmp_path, text: str, **options):
    file = tmp_path / "shop.py"
    file.write_text(HEAD + text)
    return diagnose(file, runs=tmp_path / "runs", **options)


def kinds(found) -> dict[str, bool]:
    return {symptom.kind: symptom.wrong for symptom in found.symptoms}


def test_a_sound_environment_has_no_symptoms(tmp_path):
    found = found_in(tmp_path, GOLDEN + SOUND)
    assert found.symptoms == ()
    assert (found.exit_code, found.rollouts, found.scores["golden"], found.scores["noop"]) == (0, 24, 1.0, 0.0)
    assert json.loads((Run(found.runs[0]).path / FILE).read_text())["players"][0] == "golden"


@pytest.mark.parametrize(
    ("text", "kind", "wrong"),
    [
        (GOLDEN + SOUND + NEVER, "check_never_met", True),
        (GOLDEN + SOUND + NEVER, "golden_loses", True),
        (GOLDEN + SOUND + ALWAYS, "check_always_met", False),
        (GOLDEN + SOUND + ALWAYS, "idle_scores", True),
        (GOLDEN + ALWAYS, "no_spread", True),
        (
            GOLDEN + "@env.check(points=1)\ndef some(evidence, task):\n    return evidence.state['n'] > 0\n",
            "random_scores",
            True,
        ),
        (GOLDEN + SOUND + "@env.tool\ndef other(world) -> str:\n    'Look.'\n    return ''\n", "tool_unused", False),
        (
            GOLDEN.replace("await", "await agent.call('lost', n=1)\n    await", 1)
            + SOUND
            + "@env.tool\ndef lost(world, n: int) -> str:\n    'Look.'\n    raise ToolError('no')\n",
            "tool_fails",
            True,
        ),
        (GOLDEN.replace("await agent", "for _ in range(9):\n        await agent") + SOUND, "limit_hit", True),
        (GOLDEN.replace("await agent", "for _ in range(3):\n        await agent") + SOUND, "limit_near", False),
        (GOLDEN + SOUND + "env.system = 'Call `put` or use `look_up(n)`.'\n", "tool_unknown", True),
        (GOLDEN + "@env.check(points=1)\ndef breaks(evidence, task):\n    return 1 / evidence.state['n'] < 2\n", "failed", True),
    ],
)
def test_each_mistake_is_named_with_a_rollout_that_shows_it(tmp_path, text, kind, wrong):
    found = found_in(tmp_path, text)
    assert kinds(found).get(kind) is wrong
    assert found.exit_code == (1 if any(kinds(found).values()) else 0)
    symptom = next(each for each in found.symptoms if each.kind == kind)
    task, rollout = symptom.rollouts[0]
    assert Run(symptom.run).trace(task, rollout).task == task
    assert symptom.show == f"sandlot show {symptom.run}/{task}/{rollout}"
    assert str(tmp_path / "shop.py") in symptom.again


def test_what_the_author_declares_is_no_symptom(tmp_path):
    (tmp_path / "shop.audit.toml").write_text('[declared]\nnoop_is_correct = ["t0", "t1", "t2"]\n')
    found = found_in(tmp_path, GOLDEN + ALWAYS)
    assert found.symptoms == ()


def test_without_a_golden_solution_the_other_players_play(tmp_path):
    found = found_in(tmp_path, SOUND, tasks=1)
    assert found.players == ("noop", "random", "echo", "random", "refuse")
    assert found.rollouts == 5


def test_a_model_plays_too_and_has_its_own_page(tmp_path, capsys):
    found = found_in(tmp_path, GOLDEN + SOUND, model="scripted:noop", tasks=2)
    assert len(found.runs) == 2
    assert (found.scores["model"], kinds(found)) == (0.0, {"model_no_spread": False})
    pages = write_pages(found, tmp_path / "page.html")
    assert [page.name for page in pages] == ["page.html", "page-model.html"]
    print_diagnosis(found, pages)
    shown = capsys.readouterr().out
    assert "nothing wrong found, 1 to look at" in shown
    assert "--model scripted:noop --task t0" in shown
    assert "What looks mis-specified" in pages[1].read_text()
    assert "0 golden, 1 noop, 2 random" in pages[0].read_text()
    assert "Nothing was found in these rollouts" in pages[0].read_text()


def test_what_author_code_wrote_is_text_on_the_page_and_in_the_terminal(tmp_path, capsys):
    found = found_in(tmp_path, GOLDEN + f"@env.check(points=1)\ndef breaks(evidence, task):\n    raise ValueError({ATTACK!r})\n")
    pages = write_pages(found, None)
    print_diagnosis(found, pages)
    shown = capsys.readouterr().out
    assert "1 wrong" in shown
    assert "\x1b" not in shown
    text = pages[0].read_text()
    assert "<script>document" not in text
    assert "&lt;script&gt;document" in text
    assert choose_telling(found, found.runs[0], most=2)


def test_no_tasks_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least 1"):
        found_in(tmp_path, GOLDEN + SOUND, tasks=0)
