"""`sandlot.audit`: everything that `sandlot audit` does, as one call."""

import inspect
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from sandlot import load
from sandlot.audit.audit import audit, audit_async
from sandlot.audit.finding import Layer
from sandlot.audit.reports.folder import folder_of, read_audit
from sandlot.audit.subject import PLAIN, Conditions, Description, Request, Trial
from sandlot.audit.subjects.named import SubjectOptions, find_subject, read_argument
from sandlot.audit.verdict import AuditVerdict, State
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.task import Task

ADD = """
from sandlot import Ask, Score, environment

@environment("add", tasks=2)
def add(rng):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer.strip() == str(a + b))
"""


@pytest.fixture
def add(tmp_path) -> Path:
    (tmp_path / "add.py").write_text(ADD)
    return tmp_path / "add.py"


def test_a_part_of_an_audit_is_returned_and_not_kept(add, tmp_path):
    found = audit(add, layers=["static"], runs=tmp_path / "runs")
    states = {report.layer: report.state for report in found.layers}
    assert states[Layer.STATIC] is State.RAN
    assert states[Layer.GRADER] is State.NOT_ASKED
    assert found.subject == str(add)
    assert not (tmp_path / "runs").exists()


class Unsolved:
    """A subject without a golden solution and without sources: nothing of it can be checked."""

    async def describe(self) -> Description:
        return Description(name="unsolved", kind="grader", fingerprint="f", tasks=(Task("a"),))

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        raise AuthorError("nothing of it can be played")


def test_a_whole_audit_is_kept_where_its_name_and_place_say(tmp_path):
    found = audit(Unsolved(), runs=tmp_path / "runs", reports=[tmp_path / "x" / "found.sarif"])
    assert found.verdict is AuditVerdict.INCOMPLETE
    folder = folder_of(found.name, found.place, tmp_path / "runs")
    assert {path.name for path in folder.iterdir()} == {"audit.json", "report.md", "report.html"}
    assert read_audit(found.name, found.place, tmp_path / "runs") == found
    assert msgspec.json.decode((tmp_path / "x" / "found.sarif").read_bytes())["version"] == "2.1.0"


async def test_the_blocking_form_works_inside_a_running_loop_and_says_the_same(add):
    seen: list[str] = []
    one = await audit_async(
        load(add), probes=["swallowed-errors"], runs=None, sink=lambda event: seen.append(type(event).__name__)
    )
    two = audit(str(add), probes=["swallowed-errors"], runs=None)
    assert seen == ["ProbeBegan", "ProbeEnded"]
    assert (one.verdict, one.findings, one.fingerprint) == (two.verdict, two.findings, two.fingerprint)
    assert inspect.signature(audit) == inspect.signature(audit_async)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "--limit is 0; give 1 or more"),
        ({"layers": ["deep"]}, "no layer `deep`; there are: static, grader"),
        ({"probes": ["none"]}, "no probe `none`"),
        ({"reference": "no.jsonl"}, "no file `no.jsonl` to compare with"),
        ({"waivers": "no.toml"}, "no file `no.toml` with waivers"),
        ({"reports": ["found.pdf"]}, r"report `found.pdf`: unknown extension; known: .sarif"),
        ({"user": "scripted:persona"}, "has no persona for a model to play"),
    ],
)
def test_options_that_cannot_be_met_are_refused(add, options, message):
    with pytest.raises(ConfigError, match=message):
        audit(add, runs=None, **options)


def test_models_play_in_sandlot_environments_only():
    for options in ({"model": "rookie"}, {"user": "rookie"}):
        with pytest.raises(ConfigError, match="only for Sandlot environments"):
            audit(SubjectOptions(gym="walks:Walk"), **options)


def test_an_environment_that_is_in_no_file_is_refused(add):
    env = load(add)
    env.source = None
    with pytest.raises(ConfigError, match="environment `add` is in no file"):
        audit(env)


def test_arguments_of_a_gymnasium_environment_are_the_same_when_read_again():
    given = {"size": 8, "map_name": "4x4", "text": "8", "deep": {"a": [1]}, "flag": True, "spaced": "a b"}
    words = find_subject(SubjectOptions(gym="walks:Walk", gym_arguments=given)).words
    assert "--gym-argument map_name=4x4" in words
    options = SubjectOptions(gym="walks:Walk", gym_arguments=given).given["--gym-argument"]
    assert dict(map(read_argument, options)) == given
