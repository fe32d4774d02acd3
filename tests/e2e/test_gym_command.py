"""`sandlot audit --gym` as a person uses it, in processes of its own, without Gymnasium."""

import json
import shlex
import sys

import pytest

from drive.command_line import refused
from worlds.gym import WALKS

pytestmark = pytest.mark.timeout(300)  # whole audits


@pytest.fixture
def place(tmp_path):
    (tmp_path / "walks.py").write_text(WALKS)
    return tmp_path


def of(flaw: str, *more: str) -> tuple[str, ...]:
    return ("audit", "--gym", "walks:Walk", "--gym-argument", f"flaw={flaw}", "--python", sys.executable, "--steps", "20", *more)


def test_a_sound_environment_with_a_solution_ships_and_its_report_is_kept(sandlot, place):
    done = sandlot(*of("", "--solution", "walks:walk_on"), cwd=place)
    assert done.code == 0, done.err
    assert "SHIP  every mandatory layer that applies (not: grader) ran" in done.out
    assert "it has no grader" in done.out
    (folder,) = (place / "runs" / "audits").glob("walks-Walk-*")
    assert sorted(path.name for path in folder.iterdir()) == ["audit.json", "report.html", "report.md"]
    assert json.loads((folder / "audit.json").read_text())["kind"] == "gymnasium"


def test_a_flaw_is_told_with_a_command_that_shows_it_and_a_waiver_answers_for_it(sandlot, place):
    done = sandlot(*of("keeps", "--solution", "walks:walk_on", "--json"), cwd=place)
    assert done.code == 1
    (found,) = [each for each in done.json["findings"] if each["standing"] == "confirmed"]
    assert (found["code"], found["probe"]) == ("D05.leak", "gym-leaks")
    again = shlex.split(done.json["subject"])
    shown = sandlot("audit", *again, "--probe", found["probe"], "--task", found["task"], "--json", cwd=place)
    assert [each["id"] for each in shown.json["findings"]] == [found["id"]]
    waivers = place / "known.toml"
    waivers.write_text(f'[[waiver]]\nfinding = "{found["id"]}"\nreason = "r"\nowner = "o"\nexpires = 2999-01-01\n')
    written = ("--report", "out/audit.sarif", "--report", "out/junit.xml")
    waived = sandlot(*of("keeps", "--solution", "walks:walk_on", "--json", "--waivers", "known.toml", *written), cwd=place)
    assert waived.code == 0
    (result,) = [
        each for each in json.loads((place / "out" / "audit.sarif").read_text())["runs"][0]["results"] if each["suppressions"]
    ]
    assert result["suppressions"][0]["justification"] == "r (o, until 2999-01-01)"
    assert 'failures="0"' in (place / "out" / "junit.xml").read_text()
    assert [each["finding"]["code"] for each in waived.json["waived"]] == ["D05.leak"]


def test_an_audit_is_kept_when_a_report_of_it_cannot_be_written(sandlot, place):
    (place / "full.md").symlink_to("/dev/full")
    done = sandlot(*of("", "--seeds", "1", "--report", "full.md"), cwd=place)
    assert (done.code, "report `full.md` cannot be written" in done.err) == (2, True)
    assert len(list((place / "runs" / "audits").glob("walks-Walk-*/audit.json"))) == 1


def test_a_gym_toml_may_say_all_of_it(sandlot, place):
    (place / "below").mkdir()
    (place / "below" / "gym.toml").write_text(
        f'env = "walks:Walk"\nsolution = "walks:walk_on"\nsteps = 20\npath = [".."]\npython = "{sys.executable}"\n'
    )
    done = sandlot("audit", "--gym", "below/gym.toml", "--seeds", "3", "--probe", "gym-steps", "--json", cwd=place)
    assert (done.code, done.json["tasks"], done.json["layers"][2]["state"]) == (3, 3, "ran")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name one thing to audit"),
        (("env.py", "--gym", "walks:Walk"), "name one thing to audit"),
        (("env.py", "--seeds", "3"), "--seeds is only for Gymnasium environments, and `env.py` is an environment"),
        (("env.py", "--without-sandbox"), "--without-sandbox is only for graders and Gymnasium environments"),
        (("--gym", "walks:Walk", "--tasks", "x"), "--tasks is only for graders, and `walks:Walk` is a Gymnasium environment"),
        (
            ("--grader", "a:b", "--tasks", "x", "--steps", "3"),
            "--steps is only for Gymnasium environments, and `a:b` is a grader",
        ),
        (("--gym", "walks:Walk", "--gym-argument", "flaw"), "write `name=value`"),
        (("--gym", "walks:Walk", "--seeds", "0"), "`seeds` is 0; give 1 or more"),
        (("--gym", "walks:Walk", "--model", "rookie"), "--model is only for Sandlot environments"),
        (("--gym", "walks:Walk", "--waivers", "no.toml"), "no file `no.toml` with waivers"),
        (("--gym", "walks:Walk", "--report", "audit.pdf"), "report `audit.pdf`: unknown extension"),
        (("--gym", "walks:Walk", "--report", "walks.py/audit.md"), "report `walks.py/audit.md` cannot be written"),
        (("--gym", "walks:Walk", "--python", "no-python"), "no Python at `no-python`"),
        (("--gym", "nowhere:make"), "no module `nowhere` in "),
    ],
)
def test_wrong_words_are_told_in_a_sentence(sandlot, place, words, message):
    assert message in refused(sandlot("audit", *words, cwd=place))
