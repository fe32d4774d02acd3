"""Findings from finished rollouts and from people's labels."""

import pytest

import sandlot
from sandlot.analysis.triage.labels import add_label
from sandlot.audit.case import Case
from sandlot.audit.finding import Confidence
from sandlot.audit.probes.played.health import look_at_health
from sandlot.audit.probes.played.labels import look_at_labels
from sandlot.core.errors import ConfigError

WHOLE = """
from sandlot import Ask, Score, environment

@environment("sums", tasks=40)
def sums(rng):
    number = rng.randrange(10**6)
    answer = yield Ask(f"What is {number} + 1?", golden=str(number + 1))
    {body}
    yield Score(answer == str(number + 1))
"""


@pytest.fixture
def case_of(subject_of):
    async def case_of(folder, body: str = "pass") -> Case:
        file = folder / "sums.py"
        file.write_text(WHOLE.replace("{body}", body))
        subject = subject_of(file)
        about = await subject.describe()
        return Case(subject=subject, description=about, tasks=about.tasks)

    return case_of


def rollouts(tmp_path) -> sandlot.Run:
    return sandlot.run(str(tmp_path / "sums.py"), "scripted:mixed:0.5", runs=tmp_path / "runs")


async def in_thread(function, *args):
    import anyio

    return await anyio.to_thread.run_sync(function, *args)


async def test_a_healthy_run_has_no_findings_and_a_failing_one_is_confirmed(tmp_path, case_of):
    case = await case_of(tmp_path)
    case.rollouts = (await in_thread(rollouts, tmp_path)).path
    assert [finding for finding in await look_at_health(case) if finding.standing is Confidence.CONFIRMED] == []
    (tmp_path / "broken").mkdir()
    case = await case_of(tmp_path / "broken", "raise KeyError(number) if number % 2 else None")
    case.rollouts = (await in_thread(rollouts, tmp_path / "broken")).path
    found = [finding.code for finding in await look_at_health(case) if finding.standing is Confidence.CONFIRMED]
    assert "D04.failures" in found


async def test_a_label_is_a_lead_and_only_for_this_environment(tmp_path, case_of):
    case = await case_of(tmp_path)
    run = await in_thread(rollouts, tmp_path)
    case.reviewed = run.path
    assert await look_at_labels(case) == []
    add_label(run.path, task="sums-0", rollout=0, label="hack_suspected", by="ann", at=1.0)
    add_label(run.path, task="sums-1", rollout=0, label="model_wrong", by="ann", at=2.0)
    (finding,) = await look_at_labels(case)
    assert (finding.code, finding.standing) == ("D02.hack_suspected", Confidence.LEAD)
    own = 'name = "desk"\nversion = 1\n[[labels]]\nname = "two_readings"\nwhat = "x"\ncounts_as = "spec_ambiguous"\n'
    (run.path.parent / "labels.toml").write_text(own + '[[labels]]\nname = "rude"\nwhat = "x"\n')
    for label in ("rude", "two_readings"):
        add_label(run.path, task="sums-2", rollout=0, label=label, by=label, at=3.0)
    _, ambiguous = await look_at_labels(case)
    assert (ambiguous.code, ambiguous.title) == ("D15.spec_ambiguous", "two_readings labelled sums-2/0 `two_readings`")
    changed = await case_of(tmp_path, "answer = answer.strip()")
    changed.reviewed = run.path
    with pytest.raises(ConfigError, match="another environment"):
        await look_at_labels(changed)
