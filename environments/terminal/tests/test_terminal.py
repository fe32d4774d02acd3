import json
import re
from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
GOLDEN = ENV.marked.solution
KINDS = sorted({task.tags[0] for task in TASKS})
FIRST = [f"{kind}-1" for kind in KINDS]
OLD = [task.id for task in TASKS[:45]]
SOME = OLD[2::10]
"""One task of every second kind."""
NEW = sorted(set(KINDS) - {name.rpartition("-")[0] for name in OLD})
CHEAP = [f"{kind}-1" for kind in ("break-in", "crontab", "disk", "leak", "nested", "runaway", "switch", "peer", "settings")]
INPUTS = "/data /srv /var/log/web /work /backup"


@pytest.mark.parametrize("name", [*OLD[::5], *CHEAP])
def test_the_golden_solution_gets_full_marks(play, name):
    assert str(play(ENV, tasks=[name])[name]) == "10/10"


@pytest.mark.system
@pytest.mark.timeout(600)
def test_the_golden_solution_gets_full_marks_on_every_task(play):
    scores = play(ENV, at_once=8)
    assert len(scores) == 175
    assert len(KINDS) == 35
    assert {str(score) for score in scores.values()} == {"10/10"}


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cheat", ["do_nothing", "claim_success", "make_empty_results"])
def test_a_cheat_earns_nothing_in_any_new_kind(play, cheat):
    first = [f"{kind}-2" for kind in NEW]
    assert {score.value for score in play(ENV, globals()[cheat], tasks=first, at_once=8).values()} == {0.0}


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
    other = TASKS[place + 1 if place % 5 < 4 else place - 4]  # five of each kind
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

    scores = play(ENV, half, tasks=["logs-1", "processes-1", "release-1"])
    assert {str(score) for score in scores.values()} == {"3/10"}


def test_a_repository_that_was_packed_is_read_all_the_same(play):
    async def tidy(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, "cd /work/site && git gc -q && git pack-refs --all"), task)

    assert all(score.passed for score in play(ENV, tidy, tasks=["merge-1", "recover-1"]).values())


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


# -- machines behind a console -----------------------------------------------------------------------------------------


def test_a_state_that_the_machine_did_not_seal_is_not_believed(play):
    """The right state, written by hand, with the form of a seal."""

    async def forger(agent: Agent, task: Task) -> None:
        state: dict = {}
        for want in task.key["wants"]:
            for name, value in want["value"].items():
                *above, last = name.split("/")
                inside = state
                for each in above:
                    inside = inside.setdefault(each, {})
                inside[last] = value
        text = json.dumps({"state": state, "seal": "0" * 64})
        await agent.call("bash", command=f"mkdir -p /var/lib/console; cat > /var/lib/console/state <<'END'\n{text}\nEND")
        await agent.say("Saved.")

    assert {score.value for score in play(ENV, forger, tasks=["switch-1", "installer-1"]).values()} == {0.0}


@pytest.mark.parametrize("name", ["switch-1", "disk-1"])
def test_a_machine_does_not_tell_its_seal(play, name):
    """Its memory, its command line and its program cannot be read, not even by root."""

    async def snoop(agent: Agent, task: Task) -> None:
        seal = task.key["wants"][-1]["seal"]
        places = "/proc/[0-9]*/cmdline /proc/[0-9]*/environ /usr/local/bin/* /tmp/* /var/lib/*/state"
        assert seal not in await agent.call("bash", command=f"cat {places} 2>/dev/null | tr '\\0' '\\n'")
        its = "case $(tr '\\0' ' ' < $p/cmdline) in 'python3 - ') cat $p/mem; cat $p/fd/0;; esac"
        command = f"cd /proc; for p in [0-9]*; do {its}; done"
        said = await agent.call("bash", command=command)
        assert said.count("Permission denied") == 2, said
        await agent.say("Nothing found.")

    assert play(ENV, snoop, tasks=[name])[name].value == 0


def test_a_change_that_is_not_written_is_lost(play):
    async def forgetful(agent: Agent, task: Task) -> None:
        for step in task.key["solution"]:
            if step["text"] != "write\n":
                await agent.call("terminal", **(step | {"wait_s": 5}))
        await agent.say("The switch is configured.")

    assert {score.value for score in play(ENV, forgetful, tasks=["switch-1"]).values()} == {0.0}


# -- programs that must go on ------------------------------------------------------------------------------------------

OTHERS = {
    "disk-1": 'for n in $(cut -d, -f1 /out/holders.csv); do pkill -9 -f "^$n"; done',
    "runaway-1": "pkill -9 -f 'keeper [a-z]+$'; pkill -9 -f 'worker [a-z]+$'",
}
WITHOUT_THE_WATCHER = {"disk-1": "3/10", "runaway-1": "4/10"}
WATCHER_ENDS = "pkill -9 -f '^python3 -$'"


@pytest.mark.parametrize("name", OTHERS)
def test_ending_programs_that_must_go_on_costs_points(play, name):
    """Everything is right, and then the others are killed."""

    async def careless(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, OTHERS[name]), task)

    [score] = play(ENV, careless, tasks=[name]).values()
    assert str(score) == WITHOUT_THE_WATCHER[name]


@pytest.mark.parametrize("name", OTHERS)
def test_ending_the_watcher_after_the_work_does_not_hide_what_came_then(play, name):
    async def sly(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, f"{WATCHER_ENDS}; {OTHERS[name]}"), task)

    [score] = play(ENV, sly, tasks=[name]).values()
    assert str(score) == WITHOUT_THE_WATCHER[name]


@pytest.mark.parametrize("name", OTHERS)
def test_an_answer_that_the_watcher_did_not_seal_is_not_believed(play, name):
    """Another program listens in its place, and answers what would be right."""

    async def forger(agent: Agent, task: Task) -> None:
        text = json.dumps({"state": task.key["wants"][-1]["value"], "seal": "0" * 64})
        bind = "s = socket.create_server(('127.0.0.1', 7070))\nopen('/tmp/up', 'w').close()"
        code = f"import socket\n{bind}\nwhile 1: s.accept()[0].sendall(b'{text}')"
        await agent.call("bash", command=f"cat > /tmp/forge.py <<'END'\n{code}\nEND")
        listens = "python3 /tmp/forge.py >/dev/null 2>&1 & until [ -e /tmp/up ]; do sleep 0.1; done"
        await GOLDEN(Before(agent, f"{WATCHER_ENDS}; {OTHERS[name]}; {listens}"), task)

    [score] = play(ENV, forger, tasks=[name]).values()
    assert str(score) == WITHOUT_THE_WATCHER[name]


def test_the_watcher_answers_nobody_in_the_sandbox(play):
    async def curious(agent: Agent, task: Task) -> None:
        ask = "exec 5<>/dev/tcp/127.0.0.1/7070; echo hello >&5; cat <&5"
        assert "seal" not in await agent.call("bash", command=f"bash -c '{ask}'")
        await GOLDEN(agent, task)

    assert all(score.passed for score in play(ENV, curious, tasks=list(OTHERS)).values())


def test_emptying_the_log_of_the_programs_costs_points(play):
    async def careless(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, ": > /var/log/keepers.log"), task)

    assert {str(score) for score in play(ENV, careless, tasks=["disk-1"]).values()} == {"2/10"}


def test_a_worker_that_came_back_is_not_stopped(play):
    """It ends in order, but its keeper is left to start it again."""

    async def hasty(agent: Agent, task: Task) -> None:
        name = task.key["wants"][0]["value"]
        again = f"rm /run/worker-{name}; pkill -f 'worker {name}$'; until [ -s /run/worker-{name} ]; do sleep 0.1; done"
        await agent.call("bash", command=f"mkdir -p /out; echo {name} > /out/runaway.txt; {again}")
        await agent.say("It is stopped.")

    assert {str(score) for score in play(ENV, hasty, tasks=["runaway-1"]).values()} == {"4/10"}


def test_a_service_that_was_left_running_costs_points(play):
    async def forgetful(agent: Agent, task: Task) -> None:
        run, port = made_executable(task), task.data["closed"]
        up = f"until grep -qi ' 0100007F:{port:04X} .* 0A ' /proc/net/tcp; do sleep 0.1; done"
        await GOLDEN(Before(agent, f"{run} >/dev/null 2>&1 </dev/null & {up}"), task)

    assert {str(score) for score in play(ENV, forgetful, tasks=["service-1"]).values()} == {"2/10"}


def made_executable(task: Task) -> str:
    """The path that the last command of the golden solution makes executable."""
    return re.findall(r"chmod 755 (\S+?)(?:;|$)", task.key["solution"][-1])[-1]


def test_a_script_that_cannot_be_executed_is_not_right(play):
    async def forgetful(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, f"chmod 644 {made_executable(task)}"), task)

    scores = play(ENV, forgetful, tasks=["rotate-1", "quoting-1"])
    assert {str(score) for score in scores.values()} == {"0/10"}


def test_a_shell_that_says_yes_to_everything_makes_no_script_executable(play):
    """An agent that is root puts a program that always ends with 0 in the place of the shells."""

    async def liar(agent: Agent, task: Task) -> None:
        shells = "for shell in /bin/sh /usr/bin/sh /bin/dash /usr/bin/dash /bin/bash /usr/bin/bash; do"
        put = f"{shells} cp --remove-destination /bin/true $shell; done"
        await GOLDEN(Before(agent, f"chmod 644 {made_executable(task)}; {put}"), task)

    scores = play(ENV, liar, tasks=["service-1"])
    assert {str(score) for score in scores.values()} == {"0/10"}


ENDS_ONE = "one=$(pgrep -o sleep); kill $one; while kill -0 $one; do sleep 0.05; done"


@pytest.mark.parametrize("after", [ENDS_ONE, "pkill -f 'python3 -'"], ids=["worker", "watcher"])
def test_ending_a_worker_or_the_watcher_costs_points(play, after):
    async def careless(agent: Agent, task: Task) -> None:
        await GOLDEN(Before(agent, after), task)

    assert {str(score) for score in play(ENV, careless, tasks=["processes-1"]).values()} == {"2/10"}


# -- what reads what was left ------------------------------------------------------------------------------------------

wanted = ENV.marked.functions["environment:results_are_right"].__globals__["is_there"].__globals__


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("5 4 * * * root x", ["06-01 04:05", "06-02 04:05", "06-03 04:05"]),
        ("0 0 2 * 1 root x", ["06-01 00:00", "06-02 00:00"]),  # both restricted: either fits
        ("0 0 2 jun * root x", ["06-02 00:00"]),
        ("*/30 1 * * wed root x", ["06-03 01:00", "06-03 01:30"]),
        ("1-9/4,40 2 1 * * root x", ["06-01 02:01", "06-01 02:05", "06-01 02:09", "06-01 02:40"]),
    ],
)
def test_a_crontab_is_read_as_cron_reads_it(line, times):
    assert wanted["fires"](line, ["2026-06-01", "2026-06-02", "2026-06-03"]) == {"x": times}


@pytest.mark.parametrize(
    "line", ["61 * * * * root x", "* * * *", "* * * * * nobody x", "*/0 * * * * root x", "a * * * * root x", "9-1 * * * * root x"]
)
def test_a_line_that_cron_refuses_is_refused(line):
    assert wanted["fires"](line, ["2026-06-01"]) is None


# -- how tasks are made ------------------------------------------------------------------------------------------------


@pytest.mark.system
@pytest.mark.timeout(300)
def test_every_rollout_of_a_task_begins_with_the_same_bytes(tmp_path):
    left: dict[str, list] = {}
    for trace in run(ENV, "scripted:noop", tasks=tuple(FIRST), group=2, runs=tmp_path, at_once=8):
        left.setdefault(trace.task, []).append(trace.evidence.files)
    for task, (one, other) in left.items():
        assert one or task in {"processes-1", "crontab-1", "rotate-1"}
        assert one == other, task


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_both_splits_have_tasks():
    assert all(len(tasks_of(ENV, split)) >= 4 for split in Split)


def test_what_is_wanted_is_not_told():
    for task in TASKS:
        told = task.prompt + str(task.data["files"])
        values = [str(want["value"]).strip() for want in task.key["wants"] if "value" in want]
        assert not [value for value in values if len(value) > 2 and value in told]  # any text has the digits of a small count
