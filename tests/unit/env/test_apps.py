"""Apps in an environment: opened from a base state, stored as a journal, graded again from what is stored."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sandlot
from drive.leftovers import no_leftovers
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.apps import CALENDAR, CHAT, MAIL, WAITING, Colleague, KnownFact, LiveApps, load_calendar, load_chat, load_mail
from sandlot.core.errors import GradeError
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.env.apps import base_of, load_apps, open_apps, store_apps
from sandlot.env.grading import load_evidence
from sandlot.env.session import open_session
from sandlot.run.regrade import regrade_run
from sandlot.sandbox.memory import MemoryFiles
from sandlot.store.blobs import MemoryBlobs
from sandlot.store.gc import references

ADA, BOB = "ada@corp.example", "bob@corp.example"
PEOPLE = {ADA: "Ada Hale", BOB: "Bob Ward"}


def made(seed: int = 0) -> Environment:
    env = Environment("office", apps=[MAIL, CHAT, CALENDAR, WAITING], seed=seed)

    @env.base
    def fill(apps: LiveApps, rng: Random) -> None:
        mails = [
            {"sender": BOB, "to": [ADA], "subject": f"No {rng.randrange(10**6)}", "body": "x", "at": "2026-01-02T10:00:00Z"}
        ] * 5
        load_mail(apps.mail, accounts=PEOPLE, messages=mails)
        load_chat(apps.chat, members=[{"email": email, "real_name": name} for email, name in PEOPLE.items()])
        load_calendar(apps.calendar, owners=PEOPLE)

    @env.tasks
    def tasks(rng: Random) -> Any:
        yield Task("ask", prompt="Ask Bob.", data={"code": rng.randrange(1000)})

    @env.setup
    def prepare(world: World, task: Task) -> None:
        world.apps.actor = ADA
        world.apps.colleagues.append(Colleague(email=BOB, facts=(KnownFact(("code",), f"It is {task.data['code']}."),)))
        world.apps.mail.schedule("mail_arrives", 90, sender="x@out.example", to=[ADA], subject="Late", body="mail")
        world.apps.mail.run("DELETE FROM message WHERE rowid = 1")

    @env.check(points=1)
    def answered(evidence: Evidence, task: Task) -> tuple[bool, str]:
        mail = evidence.apps.mail
        got = mail.value("SELECT count(*) FROM content WHERE sender = ? AND body LIKE ?", BOB, f"%{task.data['code']}%")
        assert len(mail.start_rows("SELECT * FROM message")) == 9
        assert {change.by for change in evidence.apps.changes()} == {"send_email", "create-event"}
        assert mail.value("SELECT count(*) FROM content WHERE subject = 'Late'") == 1
        return got == 1, f"{len(mail.changes())} changes"

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("send_email", to=[BOB], subject="Code", body="What is the code?")
        await agent.call(
            "create-event", calendarId="primary", summary="Talk", start="2026-02-02T10:00:00", end="2026-02-02T11:00:00"
        )
        await agent.call("wait", minutes=30)
        await agent.say("done")

    return env


async def play(env: Environment) -> tuple[Any, Trace, MemoryBlobs]:
    """One rollout by hand: the apps as they ended, the trace with its evidence, and what was stored."""
    from sandlot.core.trace import Message, ToolCall
    from sandlot.core.types import Role

    task = sandlot.tasks_of(env)[0]
    blobs = MemoryBlobs()
    async with open_session(env, task, blobs=blobs) as session:
        await session.reset()
        for number, (tool, arguments) in enumerate(
            [
                ("send_email", {"to": [BOB], "subject": "Code", "body": "What is the code?"}),
                (
                    "create-event",
                    {"calendarId": "primary", "summary": "Talk", "start": "2026-02-02T10:00:00", "end": "2026-02-02T11:00:00"},
                ),
                ("wait", {"minutes": 30}),
            ]
        ):
            await session.step(Message(role=Role.ASSISTANT, parts=(ToolCall(id=str(number), name=tool, arguments=arguments),)))
        trace = Trace(run="r", task=task.id, rollout=0, seed=0)
        trace.evidence = await session.gather("done")
        return session.world.apps.freeze(), trace, blobs


async def test_apps_leave_nothing_for_the_garbage_collector():
    env = made()
    await play(env)
    with no_leftovers():
        await play(env)


async def test_two_cold_starts_have_the_same_bytes_and_the_same_play_ends_in_the_same_bytes():
    one, other = made(), made()
    assert dict(base_of(one).states) == dict(base_of(other).states)
    assert dict(base_of(one).states) != dict(base_of(made(seed=1)).states)
    first, first_trace, _ = await play(one)
    second, second_trace, _ = await play(other)
    assert dict(first.states) == dict(second.states)
    assert first == second
    assert first_trace.evidence is not None
    assert second_trace.evidence is not None
    assert first_trace.evidence.apps == second_trace.evidence.apps


async def test_the_final_state_is_read_from_what_is_stored_even_if_the_environments_data_has_changed():
    env = made()
    end, trace, blobs = await play(env)
    for grading in (env, made(seed=5)):
        evidence = await load_evidence(grading, sandlot.tasks_of(grading)[0], trace, blobs)
        for app in evidence.apps:
            live = LiveApps([each for each in env.apps if each.name == app.name], end)[app.name]
            for table in ("message", "content", "event", "member"):
                if live.one("SELECT 1 FROM sqlite_master WHERE name = ?", table):
                    assert app.rows(f"SELECT * FROM {table}") == live.rows(f"SELECT * FROM {table}")
    assert trace.evidence is not None
    assert trace.evidence.apps is not None
    assert {*trace.evidence.apps.bases.values(), trace.evidence.apps.journal} <= set(references(trace))  # `gc` keeps them
    with pytest.raises(GradeError, match="missing from the run directory"):
        await load_apps(made(seed=5), trace.evidence.apps, MemoryBlobs())


def test_a_run_is_graded(tmp_path: Path):
    outcomes = [trace.outcome for trace in sandlot.run(made(), "scripted:golden", runs=tmp_path)]
    assert all(isinstance(outcome, Scored) and outcome.score.value == 1.0 for outcome in outcomes), outcomes


async def test_a_stored_run_is_graded_again_with_the_same_result(tmp_path: Path):
    file = tmp_path / "rooms.py"
    file.write_text(ROOMS)
    run = await sandlot.run_async(file, "scripted:golden", runs=tmp_path / "runs")
    assert {trace.reward for trace in run} == {1.0}
    report = await regrade_run(run.path, str(file))
    assert report.changed == ()
    assert report.same == 1


ROOMS = """
from sandlot import Environment, Task
from sandlot.apps import App

ROOMS = App("rooms", schema="CREATE TABLE booking (room TEXT, owner TEXT)")


@ROOMS.tool
def book_room(app, room: str) -> str:
    "Book a room."
    app.insert("booking", room=room, owner=app.actor)
    return "booked"


env = Environment("rooms", apps=[ROOMS])


@env.tasks
def tasks(rng):
    yield Task("book", prompt="Book Oak.")


@env.setup
def prepare(world, task):
    world.apps.actor = "ada"


@env.check(points=1)
def oak_is_booked(evidence, task):
    return evidence.apps.rooms.rows("SELECT * FROM booking") == [{"room": "Oak", "owner": "ada"}]


@env.solution
async def solve(agent, task):
    await agent.call("book_room", room="Oak")
    await agent.say("done")
"""


async def test_the_base_is_stored_once_for_many_rollouts():
    env = made()
    puts: list[int] = []

    class Counting(MemoryBlobs):
        async def put(self, data: bytes) -> str:
            puts.append(len(data))
            return await super().put(data)

    blobs = Counting()
    task = sandlot.tasks_of(env)[0]
    for _ in range(3):
        world = env.new_world(task, MemoryFiles(), 0)
        async with open_apps(env, world):
            await store_apps(env, world.apps, blobs)
    assert len([size for size in puts if size > 10_000]) == len(env.apps) - 1  # `waiting` has no tables


def test_a_base_that_fails_is_the_environments_failure(tmp_path: Path):
    env = made()
    env.marked.base = lambda apps, rng: 1 / 0
    (trace,) = sandlot.run(env, "scripted:golden", runs=tmp_path)
    assert isinstance(trace.outcome, Failed)
    assert trace.outcome.side == "environment"
    assert "filling the apps" in trace.outcome.message


PLAY = """
import json, sys
from types import SimpleNamespace
import anyio
from sandlot.apps import CALENDAR, CHAT, DIRECTORY, MAIL, WAITING, Colleague, KnownFact
from sandlot.apps import load_calendar, load_chat, load_directory, load_mail
from sandlot.apps.live import LiveApps, empty_snapshot
from sandlot.apps.tool import tools_of
from sandlot.core.trace import ToolCall
from sandlot.core.types import digest

people = {f"p{n}@corp.example": f"Person {n}" for n in range(8)}
ada, *others = people
declared = [MAIL, CHAT, CALENDAR, DIRECTORY, WAITING]
apps = LiveApps(declared, empty_snapshot(declared))
with apps.acting("base"):
    load_mail(apps.mail, accounts=people, messages=[{"sender": a, "to": [ada], "subject": a, "body": "x"} for a in others])
    load_chat(apps.chat, members=[{"email": a, "real_name": n} for a, n in people.items()],
              channels=[{"name": "all", "members": list(people), "id": "C1"}])
    load_calendar(apps.calendar, owners=people)
    load_directory(apps.directory, employees=[{"email": a, "first_name": "P", "last_name": n} for a, n in people.items()])
start = {name: digest(state) for name, state in apps.freeze().states.items()}
apps.actor = ada
apps.colleagues += [Colleague(email=a, facts=(KnownFact(("why",), a),), apps=("mail", "chat", "calendar")) for a in others]
apps.begin()

async def play():
    world = SimpleNamespace(apps=apps)
    tools = {tool.spec.name: tool for tool in tools_of(declared)}

    async def call(name, **arguments):
        return (await tools[name].call(world, ToolCall(id="1", name=name, arguments=arguments))).text

    await call("send_email", to=others, subject="Why", body="why?")
    members = json.loads(await call("slack_get_users"))["members"]
    mentions = " ".join(f"<@{member['id']}>" for member in members)
    await call("slack_post_message", channel_id="C1", text=f"why {mentions}")
    guests = [{"email": a} for a in others]
    made = json.loads(await call("create-event", calendarId="primary", summary="Talk", start="2026-01-05T12:00:00",
                                 end="2026-01-05T13:00:00", attendees=guests, sendUpdates="all"))
    await call("update-event", calendarId="primary", eventId=made["event"]["id"], attendees=guests[:2])
    await call("create_filter", criteria={"from": "p1"}, action={"addLabelIds": ["STARRED"]})
    await call("hr_request_time_off", kind="Vacation", start="2026-02-02", end="2026-02-06")
    await call("wait", minutes=120)

anyio.run(play)
end = apps.freeze()
states = {name: digest(state) for name, state in end.states.items()}
print(json.dumps([start, states, len(end.journal), digest(repr(end.journal).encode())]))
"""


def test_two_processes_with_other_hash_seeds_start_and_end_in_the_same_bytes():
    said = [
        subprocess.run(
            [sys.executable, "-c", PLAY], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    start, end, changes, _ = json.loads(said[0])
    assert start.keys() == end.keys()
    assert changes > 60
    assert all(start[name] != end[name] for name in ("mail", "chat", "calendar", "directory"))


def test_a_folder_names_its_apps_in_its_world(tmp_path: Path):
    files = {
        "environment.toml": 'name = "post"\n',
        "tasks/tasks.jsonl": '{"id": "one", "prompt": "Look."}\n',
        "world.py": (
            "from sandlot.apps import MAIL, load_mail\n\nAPPS = [MAIL.offering('search_emails')]\n\n\n"
            "def base(apps, rng):\n    load_mail(apps.mail, accounts={'ada@corp.example': 'Ada'})\n\n\n"
            "def setup(world, task):\n    world.apps.actor = 'ada@corp.example'\n"
        ),
        "checks.py": "def accounts(evidence, task):\n    return evidence.apps.mail.value('SELECT count(*) FROM account') == 1\n",
        "rubrics/default.json": (
            '{"format": 1, "checks": [{"kind": "python", "id": "one", "ref": "checks:accounts", "points": 1}]}'
        ),
        "solution.py": (
            "async def solve(agent, task):\n    await agent.call('search_emails', query='x')\n    await agent.say('done')\n"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    env = sandlot.load(tmp_path)
    assert [tool.spec.name for tool in env.tools] == ["search_emails"]
    assert {trace.reward for trace in sandlot.run(env, "scripted:golden", runs=tmp_path / "runs")} == {1.0}
