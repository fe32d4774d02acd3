"""A Gymnasium environment as a subject: the promises every one makes, kept and broken. No Gymnasium is needed here."""

import py_compile
import sys
import textwrap
from dataclasses import dataclass

import msgspec
import pytest

from sandlot.audit.audit import GYM_PANEL, AuditPlan, audit_subject
from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.layers import AuditSelection
from sandlot.audit.probes.gymnasium.promises import PROBES, _look_at_steps
from sandlot.audit.probes.gymnasium.solved import _look_at_solution, _rollouts
from sandlot.audit.subject import PLAIN, Call, Declared, Description, Lost, NamedPlay, Regrade, Script, Subject, Take, Trial
from sandlot.audit.subjects.foreign.gym import GymConfig, GymSubject, open_gym, read_gym
from sandlot.audit.subjects.foreign.gym_record import GymFacts, GymRecord, record_of
from sandlot.audit.subjects.foreign.worker import Budget
from sandlot.audit.verdict import Audit, AuditVerdict, State
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Trace
from worlds.gym import WALKS


def config(tmp_path, flaw: str = "", **changed: object) -> GymConfig:
    (tmp_path / "walks.py").write_text(textwrap.dedent(WALKS))
    plain = GymConfig(
        env="walks:Walk",
        arguments={"flaw": flaw},
        seeds=3,
        steps=12,
        python=sys.executable,
        path=(str(tmp_path),),
        budget=Budget(trial_s=5),
    )
    return msgspec.structs.replace(plain, **changed)


async def described(config: GymConfig) -> Description:
    async with open_gym(config) as subject:
        return await subject.describe()


async def audited(config: GymConfig) -> Audit:
    async with open_gym(config) as subject:
        return await audit_subject(subject, AuditPlan(subject="--gym walks:Walk"))


@pytest.mark.parametrize(
    ("flaw", "code"),
    [
        ("", None),
        ("one space", None),
        ("unseeded", "D05.reset"),
        ("counts", "D05.reset"),
        ("keeps", "D05.leak"),
        ("hashes", "D17.hash"),
        ("dated", "D17.clock"),
        ("placed", "D17.zone"),
        ("shares", "D18.neighbours"),
        ("bare", "D08.shape"),
        ("four", "D08.shape"),
        ("number", "D08.shape"),
        ("refuses", "D08.action"),
        ("outside", "D08.observation"),
        ("nan", "D06.nan"),
        ("large", "D06.range"),
        ("anything", "D08.outside"),
        ("old", "D13.lost"),
    ],
)
async def test_a_broken_promise_is_found_once_and_a_kept_one_is_not(tmp_path, flaw, code):
    async with open_gym(config(tmp_path, flaw)) as subject:
        about = await subject.describe()
        case = Case(subject=subject, description=about, tasks=about.tasks)
        slow = {"gym-surroundings"} if code is not None and code.startswith(("D06", "D08", "D13")) else set()  # three processes
        found: list[Finding] = [finding for probe in PROBES if probe.name not in slow for finding in await probe.run(case)]
    assert [finding.code for finding in found] == ([code] if code else [])
    assert all(finding.fix and finding.probe in {probe.name for probe in GYM_PANEL} for finding in found)


@pytest.mark.parametrize(("flaw", "word"), [("hangs", "hung"), ("exits", "died")])
async def test_a_hostile_environment_loses_its_own_trials_and_is_told_once(tmp_path, flaw, word):
    given = config(tmp_path, flaw, seeds=1, steps=5, budget=Budget(trial_s=0.3))
    wanted = AuditSelection(probes=frozenset({"gym-steps", "gym-resets", "gym-neighbours"}))
    async with open_gym(given) as subject:
        (found,) = (await audit_subject(subject, AuditPlan(subject="x", wanted=wanted))).findings
    assert found.code == "D13.lost"
    assert word in found.witness.observed


async def test_a_script_of_actions_is_played_as_written(tmp_path):
    script = Script(name="walk", turns=((Call("act", {"action": 1}),), (Call("act", {"action": 0}),)))
    async with open_gym(config(tmp_path)) as subject:
        (trial,) = await subject.take([Take(task="seed-2", play=script)])
    assert [step.action for step in record_of(trial).steps] == ["1", "0"]


# -- the verdict ---------------------------------------------------------------------------------------------------------------


async def test_with_a_solution_that_earns_more_it_may_be_shipped_and_the_missing_layer_is_named(tmp_path):
    found = await audited(config(tmp_path, solution="walks:walk_on", seeds=8))
    assert found.verdict is AuditVerdict.SHIP
    assert {report.layer: report.state for report in found.layers[:4]} == {
        Layer.STATIC: State.RAN,
        Layer.GRADER: State.DOES_NOT_APPLY,
        Layer.SCRIPTED: State.RAN,
        Layer.DIFFERENTIAL: State.RAN,
    }
    assert "no grader" in found.layers[1].why
    assert {part.kind for part in found.coverage.parts} == {"reward", "play", "surroundings"}
    assert found.coverage.complete
    assert all(part.tried for part in found.coverage.parts)


async def test_without_a_solution_it_is_incomplete_and_says_what_is_missing(tmp_path):
    found = await audited(config(tmp_path))
    assert found.verdict is AuditVerdict.INCOMPLETE
    assert "--solution MODULE:FUNCTION" in found.layers[2].why
    assert found.layers[3].state is State.RAN


@pytest.mark.parametrize(
    ("flaw", "changed", "code", "why"),
    [
        ("pays", {"solution": "walks:walk_on"}, "D14.constant", ""),
        ("backwards", {"solution": "walks:walk_on"}, "D14.random", ""),
        ("leans", {"solution": "walks:lean"}, "D14.constant", ""),
        ("leans", {"solution": "walks:lean", "declared": Declared(guessable=True)}, None, ""),
        ("pays", {"solution": "walks:walk_on", "declared": Declared(guessable=True)}, "D14.random", ""),
        ("", {"solution": "walks:stumble", "declared": Declared(guessable=True)}, None, "fails on `seed-0`"),
        ("", {"solution": "walks:walk_on", "seeds": 2}, None, "give more `--seeds`"),
        ("pays", {"solution": "walks:walk_on", "steps": 2}, None, "give more `--steps`"),
        ("", {"solution": "walks:stumble"}, None, "fails on `seed-0`: ValueError: lost the way"),
        ("", {"solution": "walks:leave"}, None, "fails on `seed-0`: ValueError: no action 'home'"),
    ],
)
async def test_a_solution_is_held_against_agents_that_do_not_look(tmp_path, flaw, changed, code, why):
    async with open_gym(config(tmp_path, flaw, **{"seeds": 8, **changed})) as subject:
        about = await subject.describe()
        case = Case(subject=subject, description=about, tasks=about.tasks)
        (probe,) = [probe for probe in GYM_PANEL if probe.name == "gym-solution"]
        if why:
            with pytest.raises(ConfigError, match=why):
                await probe.look(case)
        else:
            assert [finding.code for finding in await probe.look(case)] == ([code] if code else [])


async def test_an_audit_speaks_for_the_text_of_everything_its_author_wrote(tmp_path):
    (tmp_path / "ground.py").write_text("SIZE = 40\n")
    first = await described(config(tmp_path))
    assert set(first.sources) == {"walks.py", "ground.py"}
    (tmp_path / "ground.py").write_text("SIZE = 39\n")
    assert (await described(config(tmp_path))).fingerprint != first.fingerprint


async def test_an_environment_whose_text_is_nowhere_was_not_read(tmp_path):
    given = config(tmp_path)
    py_compile.compile(str(tmp_path / "walks.py"), cfile=str(tmp_path / "walks.pyc"))
    (tmp_path / "walks.py").unlink()
    async with open_gym(given) as subject:
        found = await audit_subject(subject, AuditPlan(subject="x", wanted=AuditSelection(layers=frozenset({Layer.STATIC}))))
    assert (found.layers[0].state, found.verdict) == (State.COULD_NOT_RUN, AuditVerdict.INCOMPLETE)
    assert "its source was not found" in found.layers[0].why


# -- what cannot be audited ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("walks:make", r"making `walks:make` with no arguments raised OSError: no such level.*--gym-argument"),
        ("walks:needy", r"raised TypeError: .*missing 1 required positional argument: 'size'"),
        ("walks:nothing", "made a int without `reset`"),
        ("walks:absent", "there is no `absent`; there are: .*make"),
        ("walks:number", "is a int, which cannot be called"),
        ("nowhere:make", r"no module `nowhere` in /.*, and none that .* has installed; .*`--python`"),
        ("broken:make", r"module `broken` imports `absent_package`, which .* lacks it: .* install it there"),
        ("Nothing-v1", r"is the id of an environment, and .* has no gymnasium to make it; install it there"),
        ("walks:Nothing-v1", r"is the id of an environment, and .* has no gymnasium to make it; install it there"),
    ],
)
async def test_what_cannot_be_made_is_the_users_to_mend(tmp_path, env, message):
    (tmp_path / "walks.py").write_text(
        "number = 3\ndef make(): raise OSError('no such level')\ndef needy(size): pass\ndef nothing(): return 3\n"
    )
    (tmp_path / "broken.py").write_text("import absent_package")
    bare = GymConfig(env=env, python="/usr/bin/python3", path=(str(tmp_path),))
    with pytest.raises(ConfigError, match=message):
        await described(bare)


def test_a_gym_toml_has_the_same_fields_and_its_paths_begin_where_it_lies(tmp_path):
    place = tmp_path / "gym.toml"
    place.write_text(
        'env = "walks:Walk"\nseeds = 3\npython = "venv/bin/python"\n[arguments]\nflaw = ""\n[budget]\ntrial_s = 2.5\n'
    )
    found = read_gym(place)
    assert (found.seeds, found.python, found.path) == (3, str(tmp_path / "venv/bin/python"), (str(tmp_path / "."),))
    for wrong in ("seeds = 0", "seed = 3", "steps = -1", "["):
        place.write_text(f'env = "walks:Walk"\n{wrong}\n')
        with pytest.raises(ConfigError, match=r"gym\.toml"):
            read_gym(place)


async def test_a_process_that_lies_about_what_it_saw_loses_the_trial(tmp_path):
    (tmp_path / "walks.py").write_text(
        WALKS + "\nimport sys\nsys.modules['sandlot_gym']._reset = lambda env, seed: ({'pair': 'yes', 'digest': 3}, 1)\n"
    )
    (tmp_path / "ground.py").write_text("SIZE = 40\n")
    async with open_gym(GymConfig(env="walks:Walk", python=sys.executable, path=(str(tmp_path),))) as subject:
        (trial,) = await subject.take([Take(task="seed-0", play=Script(name="idle"))])
    assert trial.lost is not None
    assert "wrote garbage" in trial.lost.message
    assert record_of(trial).trouble == trial.fate


def test_records_of_what_was_noted_are_read_strictly():
    assert record_of(Trial()) == GymRecord(error="cancelled")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"actions": 3, "observations": ""}, GymFacts)


@dataclass
class _Answers:
    """Workers whose code says this of itself, and takes no call."""

    facts_said: object

    async def facts(self, conditions):
        return self.facts_said

    async def call(self, requests, conditions):
        raise AssertionError(f"asked for {requests}")


async def test_what_an_environment_says_of_itself_must_be_a_description():
    lying = GymSubject(GymConfig(env="walks:Walk"), _Answers({"actions": 3}))
    with pytest.raises(ConfigError, match=r"`walks:Walk` gave an invalid description of itself: .*`str`, got `int`"):
        await lying.describe()


async def test_nothing_can_be_graded_again_where_there_is_no_grader():
    subject = GymSubject(GymConfig(env="walks:Walk"), _Answers(None))
    trace = Trace(run="r", task="seed-0", rollout=0, seed=0)
    with pytest.raises(ConfigError, match="has no grader, so nothing can be graded again"):
        await subject.take([Regrade(trace=trace)])
    with pytest.raises(ConfigError, match=r"unknown agent `golden7` for a Gymnasium environment; known: .*constant-N"):
        await subject.take([Take(task="seed-0", play=NamedPlay(name="golden7"))])


@dataclass
class Losing:
    """A subject that plays the first so many of a take and never tries the others."""

    subject: Subject
    tried: int

    async def describe(self) -> Description:
        return await self.subject.describe()

    async def take(self, requests, conditions=PLAIN) -> list[Trial]:
        trials = await self.subject.take(requests, conditions)
        skipped = Trial(lost=Lost(kind="skipped", message="slow, as others"))
        return [trial if place < self.tried else skipped for place, trial in enumerate(trials)]


async def test_seeds_that_were_never_played_break_no_promise(tmp_path):
    async with open_gym(config(tmp_path)) as subject:
        about = await subject.describe()
        case = Case(subject=Losing(subject, 2), description=about, tasks=about.tasks)
        found = [finding for probe in PROBES for finding in await probe.look(case)]
        none = Case(subject=Losing(subject, 0), description=about, tasks=about.tasks)
        with pytest.raises(ConfigError, match=r"no seed was played: lost \(skipped\)"):
            await _look_at_steps(none)
    assert found == []


async def test_a_rival_that_was_not_played_is_not_worse_than_the_solution(tmp_path):
    async with open_gym(config(tmp_path, solution="walks:walk_on", seeds=8)) as subject:
        about = await subject.describe()
        case = Case(subject=Losing(subject, 7), description=about, tasks=about.tasks)
        with pytest.raises(ConfigError, match=r"on `seed-7`: lost \(skipped\)"):
            await _look_at_solution(case)
        with pytest.raises(ConfigError, match=r"`random` was not played on `seed-7`: lost \(skipped\)"):
            await _rollouts(case, "random")
