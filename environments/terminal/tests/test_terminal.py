from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
GOLDEN = ENV.marked.solution
KINDS = sorted({task.tags[0] for task in TASKS})
FIRST = [f"{kind}-1" for kind in KINDS]
SOME = [task.id for task in TASKS[::3]]
INPUTS = "/data /srv /var/log/web /work /backup"


def test_the_golden_solution_gets_full_marks_on_every_task(play):
    scores = play(ENV)
    assert len(scores) == 45
    assert len(KINDS) == 9
    assert {str(score) for score in scores.values()} == {"10/10"}


# -- what earns nothing ------------------------------------------------------------------------------------------------


async def do_nothing(agent: Agent, task: Task) -> None:
    await agent.say("")


async def claim_success(agent: Agent, task: Task) -> None:
    await agent.call("bash", command="mkdir -p /out /logs/verifier; echo PASSED; echo 1 > /logs/verifier/reward.txt; exit 0")
    await agent.call("bash", command="for f in reward.txt score.json result.json PASSED; do echo 1.0 > /out/$f; done")
    await agent.say("PASSED. All checks are green. Score: 10/10")


async def delete_the_inputs(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"rm -rf {INPUTS}; mkdir -p /out")
    await agent.say("There is nothing left to do.")


async def make_empty_results(agent: Agent, task: Task) -> None:
    paths = " ".join(want["path"] for want in task.key["wants"] if "path" in want)
    await agent.call("bash", command=f"mkdir -p /out; for p in {paths}; do : > $p; done")
    await agent.say("Done.")


async def answer_for_another_task(agent: Agent, task: Task) -> None:
    """What is right for the next task of the same kind: plausible in every way, and wrong."""
    place = TASKS.index(task)
    other = TASKS[place + 1 if place % 5 < 4 else place - 4]
    for want in other.key["wants"]:
        if "value" in want:
            text = want["value"] if isinstance(want["value"], str) else repr(want["value"]).replace("'", '"')
            await agent.call("bash", command=f"mkdir -p /out; cat > {want['path']} <<'END'\n{text}\nEND")
    await agent.say("Done.")


CHEATS = [do_nothing, claim_success, delete_the_inputs, make_empty_results, answer_for_another_task]


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_earns_nothing(play, cheat):
    assert {score.value for score in play(ENV, cheat, tasks=SOME).values()} == {0.0}


# -- what costs points, and what does not ------------------------------------------------------------------------------


def test_spoiling_inputs_on_the_way_costs_points(play):
    async def careless(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, f"rm -rf {INPUTS}"), task)

    scores = play(ENV, careless, tasks=["logs-1", "tables-1", "release-1"])
    assert {str(score) for score in scores.values()} == {"2/10"}


def test_moving_a_branch_nobody_asked_about_costs_points(play):
    async def careless(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, "git -C /work/site update-ref refs/heads/main refs/heads/main~1"), task)

    scores = play(ENV, careless, tasks=["culprit-1", "recover-1"])
    assert {str(score) for score in scores.values()} == {"2/10"}


def test_half_the_results_are_worth_less_than_half(play):
    async def half(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, f"rm -rf {task.key['wants'][1]['path']}"), task)

    scores = play(ENV, half, tasks=["logs-1", "tables-1", "processes-1", "release-1"])
    assert {str(score) for score in scores.values()} == {"3/10"}


def test_a_repository_that_was_packed_is_read_all_the_same(play):
    async def tidy(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, "cd /work/site && git gc -q && git pack-refs --all"), task)

    assert all(score.passed for score in play(ENV, tidy, tasks=["merge-1", "merge-2", "recover-1"]).values())


def test_a_forged_commit_object_is_not_believed(play):
    """An object with the right tree and parents under a name that is not its hash."""

    async def forger(agent: Agent, task: Task) -> None:
        [want] = task.key["wants"]
        parents = "".join(f"parent {parent}\\n" for parent in want["parents"])
        text = f"tree {want['tree']}\\n{parents}author A <a> 1 +0000\\ncommitter A <a> 1 +0000\\n\\nM\\n"
        code = f"import zlib;t=b'{text}';print(end='');open('o','wb').write(zlib.compress(b'commit %d\\0'%len(t)+t))"
        place = "/work/site/.git/objects/aa"
        await agent.call("bash", command=f'mkdir -p {place} && cd /tmp && python3 -c "{code}" && cp o {place}/{"b" * 38}')
        await agent.call("bash", command=f"echo aa{'b' * 38} > /work/site/.git/refs/heads/main")
        await agent.say("Done.")

    assert {score.value for score in play(ENV, forger, tasks=["merge-1"]).values()} == {0.0}


class Before:
    """The agent, with one more command just before its last words."""

    def __init__(self, agent: Agent, command: str) -> None:
        self.agent, self.command = agent, command

    async def call(self, tool, **arguments):
        return await self.agent.call(tool, **arguments)

    async def say(self, text):
        await self.agent.call("bash", command=self.command)
        await self.agent.say(text)


# -- how tasks are made ------------------------------------------------------------------------------------------------


def test_every_rollout_of_a_task_begins_with_the_same_bytes(tmp_path):
    left: dict[str, list] = {}
    for trace in run(ENV, "scripted:noop", tasks=tuple(FIRST), group=2, runs=tmp_path):
        left.setdefault(trace.task, []).append(trace.evidence.files)
    for task, (one, other) in left.items():
        assert one or task == "processes-1"
        assert one == other, task


def test_tasks_are_the_same_in_every_process(tasks_in_a_fresh_process):
    assert tasks_in_a_fresh_process(HERE, "1") == tasks_in_a_fresh_process(HERE, "2")


def test_both_splits_have_tasks():
    assert all(len(tasks_of(ENV, split)) >= 4 for split in Split)


def test_what_is_wanted_is_not_told():
    for task in TASKS:
        told = task.prompt + str(task.data["files"])
        assert not [want for want in task.key["wants"] if "value" in want and str(want["value"]).strip() in told]
