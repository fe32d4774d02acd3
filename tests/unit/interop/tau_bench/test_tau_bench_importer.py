"""Tasks of a small package with tau-bench's interface: what its code does to us, and what an agent does to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import sandlot
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.env.importing import import_environment
from sandlot.interop.tau_bench.source import read_source
from sandlot.interop.tau_bench.world import CLOSING, start_domain

TYPES = """
from pydantic import BaseModel

class Action(BaseModel):
    name: str
    kwargs: dict

class Task(BaseModel):
    user_id: str = ""
    actions: list[Action]
    instruction: str
    outputs: list[str]

class Info(BaseModel):
    outputs: dict = {}

class Reward(BaseModel):
    reward: float
    info: Info
"""
BASE = """
import litellm
from types import SimpleNamespace
from tau_bench.types import Info, Reward

class Env:
    def __init__(self, tasks, tools, user_strategy, task_split, task_index):
        print("loaded")
        self.tasks, self.tools, self.user = tasks, tools, None
        self.tools_info = [{"type": "function", "function": {"name": name, "description": name, "parameters":
            {"type": "object", "properties": {}}}} for name in tools]
        self.wiki, self.terminate_tools = "Be kind.", ["transfer"]

    def reset(self, task_index):
        self.task, self.data, self.actions = self.tasks[task_index], {"paid": 0}, []

    def step(self, action):
        self.actions.append(action)
        done = action.name in self.terminate_tools
        text = self.user.step("") if action.name == "respond" else self.tools[action.name](self.data, **action.kwargs)
        info = SimpleNamespace(reward_info=self.calculate_reward() if done else None)
        return SimpleNamespace(observation=text, done=done, info=info)

    def calculate_reward(self):
        paid, said = self.data["paid"], " ".join(each.kwargs["content"] for each in self.actions if each.name == "respond")
        outputs = {text: text in said for text in self.task.outputs}
        expected = sum(each.name == "pay" for each in self.task.actions)
        return Reward(reward=REWARD(paid == expected and all(outputs.values())), info=Info(outputs=outputs))

REWARD = float
"""
RETAIL = """
import fcntl
import os
import time
from tau_bench.envs.base import Env
from tau_bench.types import Action, Task

def pay(data):
    data["paid"] += 1
    return "paid"

def deaf(data):
    # closes the pipe of requests, while another process keeps that of answers open
    for each in map(int, os.listdir("/proc/self/fd")):
        if os.path.exists(f"/proc/self/fd/{each}") and os.readlink(f"/proc/self/fd/{each}").startswith("pipe:"):
            if fcntl.fcntl(each, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                os.close(each)
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    return "deaf"

def hang(data):
    time.sleep(60)

TOOLS = {"deaf": deaf, "hang": hang, "pay": pay, "die": lambda data: os._exit(3),
    "fail": lambda data: "Error: no", "transfer": lambda data: "transferred"}
TASKS = [
    Task(instruction="You want to pay.", actions=[Action(name="pay", kwargs={})], outputs=["7"]),
    Task(instruction="You want to know what is free.", actions=[], outputs=[]),
    Task(instruction="You want a person.", actions=[Action(name="transfer", kwargs={})], outputs=[]),
    Task(instruction="You break things.", actions=[Action(name="die", kwargs={})], outputs=[]),
]

class MockRetailDomainEnv(Env):
    def __init__(self, user_strategy, task_split, task_index):
        super().__init__(TASKS, TOOLS, user_strategy, task_split, task_index)
"""


@pytest.fixture
def folder(tmp_path):
    package = tmp_path / "tau" / "tau_bench"
    (package / "envs" / "retail").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "types.py": TYPES,
        "envs/__init__.py": "",
        "envs/base.py": BASE,
        "envs/retail/__init__.py": RETAIL,
    }
    for name, text in files.items():
        (package / name).write_text(text)
    return tmp_path / "tau"


def imported(folder, tmp_path):
    report = import_environment("tau-bench", str(folder), tmp_path / "env")
    return sandlot.load(tmp_path / "env"), report


def rewards(env, model, tmp_path):
    run = sandlot.run(env, model, user="scripted:persona", runs=tmp_path / "runs")
    return {trace.task: trace.reward for trace in run}, run


def test_golden_actions_and_outputs_are_played_and_a_tool_that_ends_the_process_loses(folder, tmp_path):
    env, report = imported(folder, tmp_path)
    assert len(report.tasks) == 4
    assert report.notes[0].startswith("3 of 4 tasks are passed by a conversation without any call")
    found, run = rewards(env, "scripted:golden", tmp_path)
    assert found == {"retail-test-0": 1.0, "retail-test-1": 1.0, "retail-test-2": 1.0, "retail-test-3": 0.0}
    assert "has ended" in run.trace("retail-test-3").evidence.crashed[""]


def test_doing_nothing_scores_what_tau_bench_gives_if_the_user_ends_and_0_if_not(folder, tmp_path):
    env, _ = imported(folder, tmp_path)
    ended, _ = rewards(env, f"scripted:constant:{CLOSING}", tmp_path)
    assert ended == {"retail-test-0": 0.0, "retail-test-1": 1.0, "retail-test-2": 1.0, "retail-test-3": 1.0}
    endless, _ = rewards(env, "scripted:noop", tmp_path)
    assert set(endless.values()) == {0.0}


def test_what_was_said_before_a_transfer_counts(folder, tmp_path):
    retail = folder / "tau_bench" / "envs" / "retail" / "__init__.py"
    wanted = 'Task(instruction="You want a person.", actions=[Action(name="transfer", kwargs={})], outputs='
    retail.write_text(retail.read_text().replace(f"{wanted}[]", f'{wanted}["8"]'))
    env, _ = imported(folder, tmp_path)

    async def says_and_transfers(agent, task):
        await agent.say("It is 8.")
        await agent.call("transfer")
        await agent.say(CLOSING)

    async def transfers_and_says(agent, task):
        await agent.call("transfer")
        await agent.say("It is 8.")

    env.marked.solution = says_and_transfers
    assert rewards(env, "scripted:golden", tmp_path)[0]["retail-test-2"] == 1.0
    env.marked.solution = transfers_and_says
    assert rewards(env, "scripted:golden", tmp_path)[0]["retail-test-2"] == 0.0


def test_a_reward_that_is_neither_0_nor_1_is_no_reward(folder, tmp_path):
    base = folder / "tau_bench" / "envs" / "base.py"
    base.write_text(base.read_text().replace("REWARD = float", "REWARD = lambda right: 0.5"))
    env, _ = imported(folder, tmp_path)
    _, run = rewards(env, f"scripted:constant:{CLOSING}", tmp_path)
    assert {trace.outcome.side for trace in run} == {"grader"}


def test_a_reward_of_another_type_is_no_reward(folder, tmp_path):
    types, base = folder / "tau_bench" / "types.py", folder / "tau_bench" / "envs" / "base.py"
    types.write_text(types.read_text().replace("reward: float", "reward: object"))
    base.write_text(base.read_text().replace("REWARD = float", "REWARD = lambda right: right or 0.0"))
    env, report = imported(folder, tmp_path)
    assert [left.what for left in report.left_out] == ["test task 1", "test task 2", "test task 3"]  # True for nothing
    _, run = rewards(env, "scripted:golden", tmp_path)
    failed = run.trace("retail-test-0").outcome
    assert (failed.side, "got `bool`" in failed.message) == ("grader", True)


@pytest.fixture
def domain(folder):
    process, _ = start_domain(read_source(str(folder)))
    for name in ("one", "other"):
        process.ask("begin", within_s=30, rollout=name, index=0)
    yield process
    process.close()


def called(process, rollout, tool):
    return process.ask("call", within_s=30, rollout=rollout, said=[], name=tool, arguments={})


def test_two_requests_at_a_time_end_only_their_rollout(domain):
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(called, domain, "one", "hang") for _ in range(2)]
        assert all("while another" in str(each.exception()) for each in both)
    assert called(domain, "other", "pay")["text"] == "paid"


def test_a_rollout_that_takes_no_requests_ends_alone(domain):
    assert called(domain, "one", "deaf")["text"] == "deaf"
    with pytest.raises(AuthorError, match="process of this rollout has ended"):
        called(domain, "one", "pay")
    assert called(domain, "other", "pay")["text"] == "paid"


def test_files_that_have_changed_since_the_import_are_not_run(folder, tmp_path):
    env, _ = imported(folder, tmp_path)
    (folder / "tau_bench" / "envs" / "retail" / "__init__.py").write_text("raise SystemExit")
    with pytest.raises(ConfigError, match="import them again"):
        rewards(env, "scripted:golden", tmp_path)


@pytest.mark.parametrize(
    ("query", "words"),
    [("?domain=bank", "retail or airline"), ("?domain=airline&split=train", "no tasks `train`"), ("?task=1", "unknown `task`")],
)
def test_what_is_not_there_is_said(folder, tmp_path, query, words):
    with pytest.raises(ConfigError, match=words):
        import_environment("tau-bench", f"{folder}{query}", tmp_path / "env")


def test_a_folder_without_the_package_and_a_package_that_does_not_load_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="folder of tau-bench's repository"):
        import_environment("tau-bench", str(tmp_path), tmp_path / "env")
    (folder / "tau_bench" / "types.py").write_text("import no_such_package")
    with pytest.raises(ConfigError, match="no_such_package"):
        import_environment("tau-bench", str(folder), tmp_path / "env")
