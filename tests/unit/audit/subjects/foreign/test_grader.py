"""A plain grader as a subject: what it is told, what it may return, and that nothing it does gets out."""

import json
import sys
import textwrap
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from sandlot.audit.case import regrade_with_answer
from sandlot.audit.subject import Conditions, NamedPlay, Say, Script, Take
from sandlot.audit.subjects.foreign import place
from sandlot.audit.subjects.foreign import worker as foreign_worker
from sandlot.audit.subjects.foreign.grader import GraderConfig, open_grader, read_config
from sandlot.audit.subjects.foreign.worker import Budget
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.rubric import RubricScore
from sandlot.core.trace import Scored
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.quota import Quota

LINES = ({"prompt": "What is 2+3?", "golden": "5", "unit": "kg"}, {"prompt": "What is 4+4?", "golden": "8", "unit": "m"})


def write(tmp_path: Path, code: str, lines=LINES) -> GraderConfig:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "grader.py").write_text(textwrap.dedent(code))
    (tmp_path / "tasks.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return GraderConfig(
        grader="grader:grade",
        tasks=str(tmp_path / "tasks.jsonl"),
        path=(str(folder),),
        python=sys.executable,
        budget=Budget(trial_s=1, memory_bytes=48 << 20),
    )


def say(answer: str, task: str = "line-1") -> Take:
    return Take(task=task, play=Script(name="test", turns=((Say(answer),),)))


async def fates(tmp_path: Path, code: str, *answers: str) -> list[str]:
    async with open_grader(write(tmp_path, code)) as subject:
        trials = await subject.take([say(answer) for answer in answers])
    return [trial.fate for trial in trials]


EXACT = """
def grade(answer, golden):
    return answer.strip() == golden
"""


async def test_the_golden_answer_a_script_and_a_regrade_are_graded_alike(tmp_path):
    async with open_grader(write(tmp_path, EXACT)) as subject:
        about = await subject.describe()
        golden, right, wrong, mute = await subject.take(
            [Take(task="line-2", play=NamedPlay(name="golden")), say("5"), say("6"), Take(task="line-1", play=Script(name="nop"))]
        )
        (again,) = await subject.take([regrade_with_answer(golden, "9", times=3)])
    assert (about.kind, about.has_golden, [task.id for task in about.tasks]) == ("grader", True, ["line-1", "line-2"])
    assert about.tasks[0].data == {"unit": "kg"}
    assert about.tasks[0].key == {"golden": "5"}
    assert "grader.py" in about.sources
    assert golden.passed
    assert golden.trace.evidence.answer == "8"
    assert right.passed
    assert (wrong.reward, mute.reward) == (0.0, 0.0)
    assert [scored.score.value for scored in again.scores] == [0.0, 0.0, 0.0]


async def test_numbers_are_kept_raw_in_points_and_clipped_in_value(tmp_path):
    code = """
    from decimal import Decimal
    def grade(answer, golden): return eval(answer)
    """
    returned = {"True": 1, "0.25": 0.25, "1.5": 1.5, "-3": -3, "Decimal('0.5')": 0.5}
    async with open_grader(write(tmp_path, code)) as subject:
        trials = await subject.take([say(answer) for answer in returned])
    assert [trial.scores for trial in trials] == [
        (Scored(RubricScore(points=points, possible=1, value=min(1, max(0, points)))),) for points in returned.values()
    ]


HOSTILE = """
import os, sys, time, signal, threading, subprocess

class Always:
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __bool__(self): return True

class Text(str): pass

class Number(float):
    def __float__(self): raise RuntimeError("no")
    def __repr__(self): return "1.0"

def grade(answer, golden):
    if answer == "hang":
        while True: time.sleep(1)
    if answer == "fork":
        while True:
            try: os.fork()
            except OSError: time.sleep(1000)
    if answer == "linger":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return 1
    if answer == "allocate":
        held = []
        while True: held.append(bytearray(1 << 24))
    if answer == "exit": sys.exit(0)
    if answer == "_exit": os._exit(0)
    if answer == "signal": os.kill(os.getpid(), signal.SIGSEGV)
    if answer == "parent": os.kill(os.getppid(), signal.SIGKILL)
    if answer == "close": os.closerange(0, 4096)
    if answer == "forge":
        for fd in range(3, 300):
            try: os.write(fd, b"\\x05\\x00\\x00\\x00hello" * 10)
            except OSError: pass
    if answer == "print":
        print("x" * 100000, flush=True); print("y" * 100000, file=sys.stderr, flush=True); os.write(1, b"{}")
        return 1
    if answer == "patch":
        import json, struct
        json.dumps = lambda *a, **k: "garbage"
        return 1
    if answer == "always": return Always()
    if answer == "text": return Text("1.0")
    if answer == "number": return Number(1.0)
    if answer == "none": return None
    if answer == "nan": return float("nan")
    if answer == "huge": return 10 ** 5000
    if answer == "list": return [1.0] * 10
    if answer == "recurse": return grade(answer, golden)
    if answer == "raise": raise KeyError("key")
    return answer == golden
"""


FATES = {
    "hang": "lost (hung): no answer within",
    "fork": "lost (hung)",
    "linger": "scored 1/1 = 1",
    "allocate": "failed (grader, crash): MemoryError",
    "exit": "failed (grader, crash): SystemExit: 0",
    "_exit": "lost (died): it left its process with exit code 0",
    "signal": "lost (died): its process was ended by SIGSEGV",
    "parent": "lost (died)",
    "close": "lost (died)",
    "forge": "lost (died)",
    "print": "scored 1/1 = 1",
    "patch": "lost (died)",
    "always": "failed (grader, bad_value): returned a Always",
    "text": "failed (grader, bad_value): returned a Text",
    "number": "failed (grader, bad_value): returned a Number, whose float() raises RuntimeError",
    "none": "failed (grader, bad_value): returned a NoneType",
    "nan": "failed (grader, bad_value): returned nan",
    "huge": "failed (grader, bad_value): returned inf",
    "list": "failed (grader, bad_value): returned a list",
    "recurse": "failed (grader, crash): RecursionError",
    "raise": "failed (grader, crash): KeyError: 'key'",
}


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "graded"])
async def test_a_hostile_grader_loses_its_own_trial_and_no_other(tmp_path, monkeypatch, lost):
    monkeypatch.setattr(place, "open_backend", lambda _spec: open_native(quota=Quota(pids=64)))  # a bomb of forks is as dear
    hostile = [answer for answer, fate in FATES.items() if fate.startswith("lost") == lost]
    seen = await fates(tmp_path, HOSTILE, *(each for answer in hostile for each in (answer, "5", "6")))
    came = {answer: seen[3 * at] for at, answer in enumerate(hostile)}
    assert {answer: fate for answer, fate in came.items() if not fate.startswith(FATES[answer])} == {}
    assert set(seen[1::3]) == {"scored 1/1 = 1"}
    assert set(seen[2::3]) == {"scored 0/1 = 0"}


async def test_what_a_grader_writes_stays_in_its_sandbox(tmp_path):
    code = """
    import pathlib, socket
    def grade(answer, golden):
        for name in ("/tmp/canary-of-the-audit", __file__ + ".written", "/root/canary-of-the-audit"):
            pathlib.Path(name).write_text("x")
        return not pathlib.Path(answer).exists() and not pathlib.Path("/root/.ssh").exists()
    """
    assert await fates(tmp_path, code, __file__) == ["scored 1/1 = 1"]
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == ["grader.py"]
    assert not Path("/tmp/canary-of-the-audit").exists()


SURROUNDED = """
import datetime, locale, os, random, socket, time
from datetime import datetime as moment, date
seen = []
def grade(answer, golden):
    if answer == "clock":
        years = {time.gmtime().tm_year, time.localtime().tm_year, moment.now().year, date.today().year, moment.utcnow().year,
                 int(time.strftime("%Y")), time.gmtime(time.time()).tm_year}
        assert isinstance(moment(2020, 1, 1) - moment.now(), datetime.timedelta) and isinstance(moment.now(), date)
        return len(years) == 1 and years.pop() > 2100
    if answer == "variables":
        return (os.environ["TZ"], os.environ["LC_ALL"], hash("x")) == ("Asia/Tokyo", "C", HASH)
    if answer == "network":
        try: socket.create_connection(("127.0.0.1", 9))
        except PermissionError: return 1
    if answer == "random": return random.random()
    if answer == "once":
        seen.append(1)
        return len(seen) / 10
"""


async def test_conditions_are_what_the_grader_meets(tmp_path):
    command = [sys.executable, "-c", "print(hash('x'))"]
    number = (await anyio.run_process(command, env={"PYTHONHASHSEED": "7"})).stdout
    code = SURROUNDED.replace("HASH", number.decode().strip())
    odd = Conditions(
        hash_seed=7, timezone="Asia/Tokyo", locale="C", clock_shift_s=1e10 / 3, network=False, random_seed=3, alone=True
    )
    async with open_grader(write(tmp_path, code)) as subject:
        names = ("clock", "variables", "network", "random", "random", "once", "once")
        strange = [trial.reward for trial in await subject.take([say(name) for name in names], odd)]
        (again_strange,) = [trial.reward for trial in await subject.take([say("")] * 3 + [say("random")], odd)][3:]
        usual = [trial.reward for trial in await subject.take([say(name) for name in names])]
        again = [trial.reward for trial in await subject.take([say("once")])]
    assert strange[:3] == [1, 1, 1]
    assert strange[3] == again_strange
    assert strange[5:] == [0.1, 0.1]
    assert usual[0] == 0
    assert usual[3] != usual[4]
    assert usual[5:] == [0.1, 0.2]
    assert again == [0.1]


async def test_compiled_modules_meet_the_original_classes_under_a_shifted_clock():
    code = (
        "import datetime; from importlib.machinery import ExtensionFileLoader as Loader;"
        "from sandlot.audit.subjects.foreign.inside.sandlot_surroundings import shift_clock; plain, met = datetime.date, [];"
        "Loader.exec_module = lambda *_: met.append(datetime.date); shift_clock(1e6);"
        "Loader.exec_module(); assert met == [plain]; assert datetime.date is not plain"
    )
    await anyio.run_process([sys.executable, "-c", code])  # pandas crashes, or refuses to load, with other classes


async def test_trials_beside_each_other_and_in_another_order_come_back_in_the_order_asked(tmp_path):
    code = "def grade(answer, golden): return int(answer) / 100"
    numbers = [str(number) for number in range(40)]
    async with open_grader(write(tmp_path, code)) as subject:
        for conditions in (Conditions(at_once=8), Conditions(shuffled=3)):
            trials = await subject.take([say(number) for number in numbers], conditions)
            assert [trial.reward for trial in trials] == [number / 100 for number in range(40)]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere", "imports `nowhere`, which is not in .*theirs.* add its folder to `path` .* name it in `stand_ins`"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os._exit(1)", "its process ended"),
        ("grade = 3", "cannot be called"),
        ("", "there is no `grade`"),
    ],
)
async def test_a_grader_that_cannot_be_loaded_is_the_users_to_mend(tmp_path, code, message):
    async with open_grader(write(tmp_path, code)) as subject:
        with pytest.raises(ConfigError, match=message):
            await subject.describe()


FRAMEWORK = """
import json
from frame.work import Scorer, metric, types
from frame.work.more import *

@metric
class Mine(Scorer):
    Kind = types.Kind[int] | None

    def score(self, answer, golden):
        return json.loads(answer) == json.loads(golden)

def grade(answer, golden):
    return Mine().score(answer, golden)
"""


async def test_packages_that_grading_does_not_use_need_not_be_there_if_they_are_named(tmp_path):
    config = msgspec.structs.replace(write(tmp_path, FRAMEWORK), stand_ins=("frame", "json"))
    async with open_grader(config) as subject:
        trials = await subject.take([say("5"), say("6")])
    assert [trial.reward for trial in trials] == [1.0, 0.0]


async def test_without_a_sandbox_nothing_runs_unless_somebody_says_so(tmp_path, monkeypatch):
    @asynccontextmanager
    async def none_here(spec):
        raise SandboxError("no user namespaces")
        yield

    monkeypatch.setattr(place, "open_backend", none_here)
    config = write(tmp_path, HOSTILE)
    with pytest.raises(ConfigError, match="--without-sandbox"):
        async with open_grader(config):
            pass
    async with open_grader(config, without_sandbox=True) as subject:
        trials = await subject.take([say("5"), say("_exit"), say("linger"), say("hang"), say("6")])
    assert [trial.fate.split()[0] for trial in trials] == ["scored", "lost", "scored", "lost", "scored"]


async def test_a_task_without_a_golden_answer_has_a_trial_without_a_score(tmp_path):
    config = write(tmp_path, EXACT, ({"prompt": "?", "golden": None}, {"prompt": "?", "golden": 8}))
    async with open_grader(config) as subject:
        trials = await subject.take([Take(task=task, play=NamedPlay(name="golden")) for task in ("line-1", "line-2")])
    assert trials[0].scores == ()
    assert trials[1].failed is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "the task file is empty"),
        (({"id": "a"}, {"id": "a"}), "unique"),
        (({"id": "../a"},), "use up to 128 letters"),
    ],
)
async def test_a_task_file_that_cannot_be_read_is_refused_by_line(tmp_path, lines, message):
    with pytest.raises(ConfigError, match=message):
        async with open_grader(write(tmp_path, EXACT, lines)):
            pass


def test_a_configuration_file_has_the_same_fields_and_its_own_place(tmp_path):
    path = tmp_path / "grader.toml"
    path.write_text('grader = "marks:grade"\ntasks = "tasks.jsonl"\nmap = "{answer} {golden}"\n[budget]\ntrial_s = 3\n')
    config = read_config(path)
    assert config.tasks == str(tmp_path / "tasks.jsonl")
    assert config.path == (str(tmp_path),)
    assert config.budget.trial_s == 3
    path.write_text('grader = "x"\ntask = "y"\n')
    with pytest.raises(ConfigError, match="unknown field `task`"):
        read_config(path)


# -- slow is not broken --------------------------------------------------------------------------------------------------------


async def losses(tmp_path: Path, *takes: list[str]) -> list[list[str]]:
    """Of answers that say how many seconds they take; half a second is all they have."""
    code = "import time\ndef grade(answer, golden):\n    time.sleep(float(answer))\n    return 1\n"
    given = msgspec.structs.replace(write(tmp_path, code), budget=Budget(trial_s=0.5))
    async with open_grader(given) as subject:
        taken = [await subject.take([say(answer) for answer in answers]) for answers in takes]
    return [[trial.lost.kind if trial.lost else "scored" for trial in trials] for trials in taken]


@pytest.mark.system  # its answers are late by design, and later still beside other tests
async def test_a_grader_that_is_only_slow_never_hangs_however_many_answers_are_too_slow(tmp_path):
    first, second = await losses(tmp_path, ["0.8"] * 8, ["0.8"])
    assert first == ["scored"] * 3 + ["skipped"] * 3 + ["scored"] * 2
    assert second == ["scored"]


async def test_a_grader_that_hangs_is_given_little_time_and_slow_answers_after_it_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_worker, "_QUICK_S", 0.05)
    assert await losses(tmp_path, ["600"] * 8, ["600"], ["0.1"]) == [["hung"] * 8, ["hung"], ["scored"]]
