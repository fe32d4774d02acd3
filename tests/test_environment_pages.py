"""Numbers on the pages of the ready environments, held against the environments themselves."""

import re
from collections import Counter
from pathlib import Path

import pytest

from sandlot.core.types import Split
from sandlot.env.facts import environment_facts
from sandlot.env.load import load

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "environments"
NAMES = sorted(path.parent.name for path in PLACE.glob("*/README.md") if path.parent.name != "broken")
SMALL = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen")
WORDS = {word: value for value, word in enumerate(SMALL, 2)} | {"seventeen": 17, "forty": 40, "forty-five": 45, "sixty-nine": 69}
FACTS = dict.fromkeys(NAMES)


def facts(name):
    if FACTS[name] is None:
        FACTS[name] = environment_facts(load(PLACE / name))
    return FACTS[name]


def number(text):
    word = text.lower()
    return WORDS[word] if word in WORDS else int(word.replace(",", ""))


def stated(name, pattern):
    text = (PLACE / name / "README.md").read_text()
    return [tuple(map(number, found)) if isinstance(found, tuple) else number(found) for found in re.findall(pattern, text)]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_how_many_tasks_there_are(name):
    counts = stated(name, r"\*\*Tasks\.\*\* ([\w,-]+?),? ") or stated(name, r"(\d+) questions")
    assert counts == [len(facts(name)["tasks"])]


@pytest.mark.parametrize("name", [name for name in NAMES if "| check | points |" in (PLACE / name / "README.md").read_text()])
def test_a_table_of_checks_has_the_points_of_every_check(name):
    rows = (PLACE / name / "README.md").read_text().partition("| check | points |")[2].partition("\n\n")[0]
    points = [float(value) for value in re.findall(r"\| (-?\d+) \|$", rows, re.MULTILINE)]
    assert sorted(points) == sorted(check.points for check in facts(name)["rubrics"]["default"])


def test_the_ledger_is_worth_what_its_page_and_show_say():
    found = facts("ledger")
    assert stated("ledger", r"(\d+) deterministic checks, (\d+) points") == [
        (len(found["rubrics"]["default"]), int(found["points"]["default"]))
    ]
    guide = (ROOT / "docs" / "guides" / "write-an-environment.md").read_text()
    assert f"rubric of {len(found['rubrics']['default'])} checks" in " ".join(guide.split())
    assert stated("ledger", r"adds (\w+)\s+questions for a judge") == [
        len(found["rubrics"]["judged"]) - len(found["rubrics"]["default"])
    ]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("terminal", r"`(\w+)` \((\d+)\b"), ("terminal", r"`(\w+)` takes (\d+)"), ("repo-repair", r"`(\w+)` \((\d+)\b")],
)
def test_points_in_a_sentence_are_those_of_the_check(name, pattern):
    text = (PLACE / name / "README.md").read_text()
    points = {check.id: abs(check.points) for check in facts(name)["rubrics"]["default"]}
    found = [(check, float(value)) for check, value in re.findall(pattern, text)]
    assert found
    assert all(points[check] == value for check, value in found)


def matches(path, pattern):
    return len(re.findall(pattern, (PLACE / path).read_text(), re.MULTILINE))


def tags(name):
    return Counter(tag for task in facts(name)["tasks"] for tag in task["tags"])


@pytest.mark.parametrize(
    ("name", "pattern", "count"),
    [
        ("arithmetic", r"a file of ([\w-]+) lines", lambda: matches("arithmetic/environment.py", "\n")),
        ("drill", r"(\w+) skills \(", lambda: len(tags("drill")) - len({"single", "pair"})),
        ("drill", r"(\d+) of each", lambda: tags("drill")["single"] // (len(tags("drill")) - len({"single", "pair"}))),
        ("drill", r"(\d+) pairs", lambda: tags("drill")["pair"]),
        ("helpdesk", r"^(\w+) tickets", lambda: int(re.search(r"are (\d+) open", facts("helpdesk")["tasks"][0]["prompt"])[1])),
        ("helpdesk", r"(\w+) kinds of case", lambda: matches("helpdesk/inbox.py", r"^def \w+\(case: ")),
        ("helpdesk", r"At most (\w+) refunds", lambda: facts("helpdesk")["constraints"][0].at_most),
        ("helpdesk", r"costs (\w+) points", lambda: facts("helpdesk")["constraints"][2].points),
        ("ledger", r"(\w+) kinds of job", lambda: len(tags("ledger"))),
        (
            "ledger",
            r"costs (\d+) points",
            lambda: -next(check.points for check in facts("ledger")["rubrics"]["default"] if check.id == "others_touched"),
        ),
        (
            "repo-repair",
            r"over (\w+) packages",
            lambda: sum((PLACE / "repo-repair" / "data" / tag).is_dir() for tag in tags("repo-repair")),
        ),
        ("returns", r"seed: (\w+) things", lambda: matches("returns/customers.py", r'^    "[\w ]+": \(')),
        ("terminal", r"(\w+) of each kind", lambda: len(facts("terminal")["tasks"]) // len(tags("terminal"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_number_in_a_sentence_is_that_of_the_environment(name, pattern, count):
    text = (PLACE / name / "README.md").read_text()
    assert [number(found) for found in re.findall(pattern, text, re.MULTILINE)] == [count()]


def test_the_front_page_and_the_index_name_every_ready_environment():
    for page, prefix in ((ROOT / "README.md", "environments/"), (PLACE / "README.md", "")):
        assert [name for name in NAMES if f"[`{name}`]({prefix}{name})" not in page.read_text()] == []


def test_the_front_page_counts_the_ready_environments():
    assert WORDS[re.search(r"(\w+) ready environments to read", (ROOT / "README.md").read_text())[1].lower()] == len(NAMES)


def test_the_table_of_rookie_has_as_many_held_out_tasks_as_there_are():
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+), \d+ \|", (PLACE / "README.md").read_text(), re.MULTILINE)
    assert rows
    wrong = {name: int(count) for name, count in rows if int(count) != facts(name)["splits"][Split.HELDOUT.value]}
    assert wrong == {}
