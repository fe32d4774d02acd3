"""Environments as subjects: trials come back in order, whatever author code does to its process."""

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from sandlot.audit.audit import AuditPlan, audit_subject
from sandlot.audit.case import Case, regrade_with_answer, script_of
from sandlot.audit.finding import Layer
from sandlot.audit.layers import AuditSelection
from sandlot.audit.reports.wording import verdict_sentence
from sandlot.audit.subject import Call, Conditions, NamedPlay, Say, Script, Take
from sandlot.audit.subjects.environment import workers
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.verdict import AuditVerdict, State
from sandlot.core.errors import ConfigError
from worlds.repair import write_repair

HEAD = """
import os, random, time
from sandlot import Environment, Task
env = Environment("subject", description="d")
@env.tasks
def tasks(rng):
    for number in range(4):
        yield Task(f"t{number}", prompt=f"say {number}", key={"word": str(number)})
@env.tool
def now(world) -> str:
    "The time."
    return str(int(time.time()))
@env.tool
async def look(world) -> str:
    "What lies there."
    return (await world.read("/note")).decode()
@env.setup
async def put(world, task):
    await world.write("/note", "hello")
@env.solution
async def solve(agent, task):
    await agent.say(task.key["word"])
@env.adversary
async def shouts(agent, task):
    await agent.say("ME")
"""
FORKED = "b'fork_server' in open(f'/proc/{os.getppid()}/cmdline', 'rb').read()"
CHECK = """
@env.check(points=1)
def right(evidence, task):
    {body}
    return evidence.answer == task.key["word"]
"""


@pytest.fixture
def written(tmp_path, subject_of):
    """An environment with a line in its check; `forked=False`: each worker is a new interpreter."""

    def written(body: str = "pass", *, forked: bool = True) -> EnvironmentSubject:
        file = tmp_path / "subject.py"
        file.write_text(HEAD + CHECK.format(body=body))
        return subject_of(file, patience_s=3.0) if forked else EnvironmentSubject(str(file), patience_s=3.0)

    return written


def says(task: str, text: str) -> Take:
    return Take(task=task, play=Script(name="says", turns=((Say(text),),)))


async def test_large_evidence_comes_back_once_and_can_be_graded_again(tmp_path, written):
    subject = written(body="assert sum(len(evidence.read(f'/l/{n}')) for n in range(2)) == 6 * 2**20")
    file = tmp_path / "subject.py"
    writes = '[await world.write(f"/l/{n}", random.Random(n).randbytes(3 * 2**20)) for n in range(2)]; return "done"'
    text = file.read_text().replace('return (await world.read("/note")).decode()', writes)
    file.write_text(text.replace("await agent.say(task", 'await agent.call("look"); await agent.say(task'))
    first, second = await subject.take([Take(task=task, play=NamedPlay(name="golden")) for task in ("t0", "t1")])
    assert first.reward == second.reward == 1.0
    assert sum(map(len, first.files.values())) > 6 * 2**20
    assert first.files.keys() == second.files.keys()
    assert all(first.files[blob] is second.files[blob] for blob in first.files), "what both left was sent and is kept once"
    again, wrong = await subject.take([regrade_with_answer(first, "0", times=2), regrade_with_answer(second, "0")])
    assert [score.score.value for score in again.scores] == [1.0, 1.0]
    assert wrong.reward == 0.0
    assert again.files == first.files


async def test_libraries_of_the_image_are_not_sources_of_the_author(tmp_path, subject_of):
    folder = write_repair(tmp_path)
    assert (folder / "site" / "pytest" / "__init__.py").is_file()
    sources = (await subject_of(folder).describe()).sources
    assert "checks.py" in sources
    assert not [path for path in sources if path.startswith("site/")]


async def test_repositories_to_repair_are_material_and_no_code_of_the_author(tmp_path, subject_of):
    about = await subject_of(write_repair(tmp_path)).describe()
    assert "repositories/ledger-1.2/src/ledger/sums.py" in about.material
    assert not [path for path in about.sources if path.startswith("repositories/")]


SWALLOWS = """
def total(evidence, task):
    try:
        return evidence.state["x"]
    except Exception:
        return True
"""


@pytest.mark.parametrize(("declared", "found"), [('material = ["theirs"]', 0), ("", 1)])
async def test_nothing_is_found_in_material(tmp_path, subject_of, declared, found):
    (tmp_path / "env" / "theirs").mkdir(parents=True)
    (tmp_path / "env" / "theirs" / "sums.py").write_text(HEAD + "@env.check" + SWALLOWS)
    (tmp_path / "env" / "environment.py").write_text(HEAD + CHECK.format(body="pass"))
    (tmp_path / "env" / "audit.toml").write_text(f"[declared]\n{declared}\n")
    async with subject_of(tmp_path / "env") as subject:
        audit = await audit_subject(subject, AuditPlan(subject="x", wanted=AuditSelection(layers=frozenset({Layer.STATIC}))))
    assert len([each for each in audit.findings if each.code == "D04.swallowed"]) == found


RUNS_MATERIAL = [
    "import runpy\nrunpy.run_path('theirs/sums.py')",
    "exec(open('theirs/sums.py').read())",
    "from importlib.util import spec_from_file_location as load\nload('sums', 'theirs/sums.py')",
    "import importlib\nimportlib.import_module('.'.join(['theirs', 'sums']))",
    "import sys\nsys.path.append('theirs')\nimport sums",
]


@pytest.mark.parametrize("line", RUNS_MATERIAL)
@pytest.mark.parametrize("declared", ['material = ["theirs/"]', ""])
async def test_code_that_runs_material_is_reported(tmp_path, subject_of, line, declared):
    (tmp_path / "env" / "theirs").mkdir(parents=True)
    (tmp_path / "env" / "theirs" / "sums.py").write_text("RIGHT = True\n")
    (tmp_path / "env" / "theirs" / "notes.txt").write_text("notes")
    body = "\n    ".join(["if task.id == 'never':", *(f"    {each}" for each in line.splitlines())])
    (tmp_path / "env" / "environment.py").write_text(HEAD + CHECK.format(body=body))
    (tmp_path / "env" / "audit.toml").write_text(f"[declared]\n{declared}\n")
    async with subject_of(tmp_path / "env") as subject:
        audit = await audit_subject(subject, AuditPlan(subject="x", wanted=AuditSelection(layers=frozenset({Layer.STATIC}))))
    found = [each for each in audit.findings if each.code == "D02.material"]
    assert [each.grave for each in found] == ([True] if declared else [])
    assert audit.material == ({"theirs": 1} if declared else {})
    assert ("`theirs` (1 Python file)" in verdict_sentence(audit)) == bool(declared)


@pytest.mark.parametrize(
    "line", ["from .theirs import sums", "import theirs.sums", "import importlib; importlib.import_module('theirs.sums')"]
)
async def test_a_module_that_is_imported_later_is_code_wherever_it_is(tmp_path, subject_of, line):
    (tmp_path / "env" / "theirs").mkdir(parents=True)
    (tmp_path / "env" / "theirs" / "sums.py").write_text("RIGHT = True\n")
    (tmp_path / "env" / "environment.py").write_text(HEAD + CHECK.format(body=f"{line}"))
    (tmp_path / "env" / "audit.toml").write_text('[declared]\nmaterial = ["theirs"]\n')
    about = await subject_of(tmp_path / "env").describe()
    assert "theirs/sums.py" in about.sources


async def test_what_the_environment_imports_is_its_code_wherever_it_is(tmp_path, subject_of):
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "__init__.py").write_text("")
    (tmp_path / "env" / "lib" / "words.py").write_text("WORD = '1'")
    (tmp_path / "env" / "audit.toml").write_text('[declared]\nmaterial = ["lib"]\n')
    (tmp_path / "env" / "environment.py").write_text("from .lib import words\n" + HEAD + CHECK.format(body="pass"))
    about = await subject_of(tmp_path / "env").describe()
    assert {"environment.py", "lib/words.py"} <= about.sources.keys()


@pytest.mark.parametrize("folder", [".", "..", "/", "none", "environment.py"])
async def test_material_that_is_no_folder_of_the_environment_is_refused(tmp_path, subject_of, folder):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "audit.toml").write_text(f'[declared]\nmaterial = ["{folder}"]\n')
    (tmp_path / "env" / "environment.py").write_text(HEAD + CHECK.format(body="pass"))
    with pytest.raises(ConfigError, match="no folder of the environment"):
        await subject_of(tmp_path / "env").describe()


@pytest.mark.parametrize("image", ["host:.", "host:..", "host:lib:site"])
async def test_no_image_hides_the_code_of_the_environment(tmp_path, subject_of, image):
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "__init__.py").write_text("")
    (tmp_path / "env" / "lib" / "words.py").write_text("WORD = '1'")
    (tmp_path / "env" / "site").mkdir()
    (tmp_path / "env" / "site" / "other.py").write_text("")
    head = HEAD.replace('description="d"', f'description="d", image={image!r}')
    (tmp_path / "env" / "environment.py").write_text("from .lib import words\n" + head + CHECK.format(body="pass"))
    sources = (await subject_of(tmp_path / "env").describe()).sources
    assert {"environment.py", "lib/words.py"} <= sources.keys()
    assert ("site/other.py" in sources) == (image != "host:lib:site")


async def test_it_is_described_without_being_imported_here(written):
    about = await written().describe()
    assert [task.key["word"] for task in about.tasks] == ["0", "1", "2", "3"]
    assert [tool.name for tool in about.tools] == ["now", "look"]
    assert about.has_golden
    assert about.adversaries == ("shouts",)
    assert "subject.py" in about.sources


async def test_trials_come_back_in_the_order_asked_however_they_are_taken(written):
    subject = written()
    requests = [says("t0", "0"), says("t1", "wrong"), Take(task="t2", play=NamedPlay(name="golden")), says("t3", "3")]
    for conditions in (Conditions(), Conditions(shuffled=5), Conditions(at_once=4)):
        assert [trial.reward for trial in await subject.take(requests, conditions)] == [1.0, 0.0, 1.0, 1.0]


async def test_what_was_left_can_be_graded_again_with_other_words(written):
    subject = written()
    (trial,) = await subject.take([says("t1", "1")])
    again, other = await subject.take([regrade_with_answer(trial, "1", times=3), regrade_with_answer(trial, "2")])
    assert [outcome.score.value for outcome in again.scores] == [1.0, 1.0, 1.0]
    assert other.reward == 0.0


@pytest.mark.parametrize(
    ("check", "was_read"),
    [
        ("evidence.state == {}", False),
        ("evidence.exists('/none') or evidence.answer == '1'", True),
        ("evidence.trace.answer == '1'", True),
        ("'1' in str(evidence.record)", True),
    ],
)
async def test_a_trial_says_whether_its_answer_was_read(tmp_path, subject_of, check, was_read):
    file = tmp_path / "subject.py"
    file.write_text(HEAD + f"@env.check(points=1)\ndef done(evidence, task):\n    return {check}\n")
    subject = subject_of(file, patience_s=3.0)
    (trial,) = await subject.take([says("t1", "1")])
    (again,) = await subject.take([regrade_with_answer(trial, "2", times=2)])
    assert (trial.answer_was_read, again.answer_was_read) == (was_read, was_read)


async def test_a_script_plays_calls_and_can_be_read_off_a_trial(written):
    play = Script(name="p", turns=((Call("look"),), (Say("0"),)))
    (trial,) = await written().take([Take(task="t0", play=play)])
    assert trial.passed
    assert script_of(trial, "p") == play
    assert "hello" in str(trial.trace)


@pytest.mark.parametrize(
    ("body", "kind", "forked"),
    [
        ("os._exit(3) if task.id == 't1' else None", "died", False),
        ("os.kill(os.getpid(), 9) if task.id == 't1' else None", "died", True),
        ("exec('import threading\\nwhile True: pass') if task.id == 't1' else None", "hung", True),
    ],
)
async def test_a_grader_that_kills_or_blocks_its_process_costs_one_trial(written, body: str, kind: str, forked: bool):
    subject = written(body, forked=forked)
    subject.patience_s = 1.0
    first, second, third = await subject.take(
        [says("t0", "0"), says("t1", "1"), says("t2", "2")], Conditions(limits={"grade_s": 300})
    )
    assert (first.reward, third.reward) == (1.0, 1.0)
    assert second.reward is None
    assert second.lost.kind == kind


@pytest.mark.parametrize(
    ("body", "fate"),
    [
        (f"assert {FORKED}; os._exit(3) if task.id == 't1' else None", "ended with 3"),
        (f"assert {FORKED}; os.kill(os.getpid(), 9) if task.id == 't1' else None", "ended with -9"),
    ],
)
async def test_a_worker_that_is_a_fork_is_contained_like_any_other(written, body: str, fate: str):
    first, second, third = await written(body).take([says("t0", "0"), says("t1", "1"), says("t2", "2")])
    assert (first.reward, third.reward) == (1.0, 1.0)
    assert fate in second.lost.message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_without_its_fork_server_a_worker_is_a_new_interpreter(tmp_path, written, monkeypatch, number):
    monkeypatch.setattr(workers, "_CLOSE_S", 0.1)
    body = f"os.kill(os.getppid(), {int(number)}) if {FORKED} else open({str(tmp_path / 'new')!r}, 'w')"
    async with written(body, forked=False) as subject:
        (first,) = await subject.take([says("t0", "0")])
        assert not (tmp_path / "new").exists()
        monkeypatch.setattr(workers, "_START_S", 0.5)  # a stopped fork server does not answer
        (second,) = await subject.take([says("t1", "1")])
    assert first.passed
    assert second.passed
    assert (tmp_path / "new").exists()


async def test_forked_workers_share_no_chance_and_no_modules(tmp_path, written):
    subject = written("env.count = getattr(env, 'count', 0) + 1; assert env.count == 1")
    (tmp_path / "subject.py").write_text((tmp_path / "subject.py").read_text().replace("int(time.time())", "random.random()"))
    play = Take(task="t0", play=Script(name="p", turns=((Call("now"),), (Say("0"),))))
    trials = [(await subject.take([play]))[0] for _ in range(3)]
    assert all(trial.passed for trial in trials)
    assert len({trial.trace.nodes[2].message.results[0].text for trial in trials}) == 3


async def test_nothing_is_left_of_a_fork_server_or_its_workers(tmp_path, written):
    body = f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getppid()}} {{os.getpid()}} '); time.sleep(60)"
    subject = written(body, forked=False)
    subject.patience_s = 1.0
    async with subject:
        await subject.take([says("t0", "0")], Conditions(limits={"grade_s": 300}))
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_a_grader_that_always_dies_is_not_asked_for_ever(written):
    subject = written("os._exit(3)")
    trials = await subject.take([says("t0", "0")] * 12)
    assert {trial.lost.kind for trial in trials if trial.lost} == {"died", "skipped"}
    assert all(trial.reward is None for trial in trials)


async def test_a_grader_that_allocates_without_end_meets_its_own_limit(written):
    subject = written("bytearray(2**36) if task.id == 't0' else None")
    broken, fine = await subject.take([says("t0", "0"), says("t1", "1")])
    assert broken.reward is None
    assert fine.reward == 1.0


async def test_the_limit_on_memory_of_a_worker_does_not_reach_into_its_sandboxes(tmp_path, subject_of):
    """A prover or a browser inside reserves more addresses than a grader may use."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    inside = "unlimited" if hard == resource.RLIM_INFINITY else str(hard // 1024)
    text = HEAD.replace('description="d"', 'image="host"').replace(
        'await world.write("/note", "hello")', "world.state['inside'] = (await world.exec('ulimit -Sv')).stdout.strip()"
    )
    limits = "import resource; assert resource.getrlimit(resource.RLIMIT_AS) == " + str((8 * 2**30, hard))
    (tmp_path / "subject.py").write_text(text + CHECK.format(body=f"{limits}; assert evidence.state['inside'] == {inside!r}"))
    (trial,) = await subject_of(tmp_path / "subject.py").take([says("t0", "0")])
    assert trial.passed, trial


async def test_what_author_code_prints_is_no_result(written):
    subject = written(forked=False, body="print('x' * 100_000); os.write(1, b'\\xff' * 5000)")
    (trial,) = await subject.take([says("t0", "0")])
    assert trial.passed


async def test_conditions_hold(written):
    subject = written()
    play = Script(name="p", turns=((Call("now"),),))
    plain, moved = [
        (await subject.take([Take(task="t0", play=play)], conditions))[0]
        for conditions in (Conditions(), Conditions(clock_shift_s=10_000_000.0))
    ]
    shown = [int(trial.trace.nodes[-2].message.results[0].text) for trial in (plain, moved)]
    assert 9_999_000 < shown[1] - shown[0] < 10_001_000
    hurt = Script(name="p", turns=((Call("look"),),))
    (broken,) = await subject.take([Take(task="t0", play=hurt)], Conditions(fault="tool:raise"))
    assert broken.reward is None or "injected by the audit" in str(broken.trace)


async def test_an_environment_that_cannot_be_loaded_says_why(tmp_path, subject_of):
    (tmp_path / "subject.py").write_text("from sandlot import Environment\nenv = Environment('a')\n1/0\n")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        await subject_of(tmp_path / "subject.py").describe()


async def test_golden_and_idle_trials_are_taken_once(written):
    subject = written()
    about = await subject.describe()
    case = Case(subject=subject, description=about, tasks=about.tasks)
    assert all(trial.passed for trial in (await case.golden()).values())
    assert all(trial.reward == 0.0 for trial in (await case.idle()).values())
    taken = case.taken
    await case.golden()
    await case.idle()
    assert case.taken == taken


LIES = """
import sys
import msgspec
from sandlot.audit.finding import Layer
worker = sys.modules.get("sandlot.audit.subjects.environment.worker") or sys.modules["__main__"]
honest = worker.describe
def describe(env):
    return msgspec.structs.replace(honest(env), kind="gymnasium", inapplicable=dict.fromkeys(Layer, "nothing to see"))
worker.describe = describe
"""


async def test_a_module_cannot_say_that_no_layer_applies_to_it(tmp_path, subject_of):
    file = tmp_path / "subject.py"
    file.write_text(HEAD + CHECK.format(body="pass") + LIES)
    async with subject_of(file) as subject:
        found = await audit_subject(subject, AuditPlan(subject="x", wanted=AuditSelection(layers=frozenset({Layer.STATIC}))))
        about = await EnvironmentSubject(str(file)).describe()
    assert (found.kind, found.layers[0].state) == ("environment", State.RAN)
    assert found.verdict is not AuditVerdict.SHIP
    assert (about.kind, about.inapplicable) == ("environment", {})


@pytest.mark.parametrize(("mode", "tools"), [("honest", ["work"]), ("", [])])
async def test_the_tools_of_an_mcp_server_are_described_or_why_not(tmp_path, subject_of, mode, tools):
    server = Path(__file__).parents[3] / "tools" / "raw_server.py"
    command = (sys.executable, str(server) if mode else str(tmp_path / "gone.py"), mode)
    path = tmp_path / "served.py"
    path.write_text(
        f"""
from sandlot import Environment, McpServer, Persona, Task
env = Environment("served")
env.mcp(McpServer(name="raw", command={command!r}))
@env.tasks
def tasks(rng):
    yield Task("one", prompt="Work.")
@env.persona
def customer(task):
    return Persona(who="You wait.")
@env.check(points=1)
def right(evidence, task):
    return True
"""
    )
    about = await subject_of(path).describe()
    assert [tool.name for tool in about.tools] == tools
    assert ("the tools of its MCP servers cannot be listed: MCP server `raw` did not start" in about.unlisted) is not bool(mode)
