from functools import partial
from random import Random

import msgspec
import pytest

from drive.in_process import case_of, codes
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.apps import MAIL, load_mail
from sandlot.audit.probes.likeness import changes_between
from sandlot.audit.probes.panel import SCRIPTED
from sandlot.audit.probes.scripted import controls, drift, mutation, staleness, visibility
from sandlot.audit.probes.scripted.calls import allowed_calls, forbidden_calls
from sandlot.audit.probes.scripted.mutants import mutants
from sandlot.audit.probes.scripted.reach import find_works
from sandlot.audit.probes.scripted.tables import stored_answers
from worlds.audited import desk, files


@pytest.mark.parametrize("make", [desk, files])
async def test_nothing_is_confirmed_on_a_sound_environment(make):
    case = await case_of(make)
    case.tasks = case.tasks[:3]
    found = [finding for probe in SCRIPTED if probe.applies(case) is None for finding in await probe.look(case)]
    assert codes(found) == set()


async def test_a_result_from_before_the_change_is_stale():
    assert codes(await staleness._look_at_staleness(await case_of(partial(desk, "stale")))) == {"D01.stale"}


async def test_a_call_that_fits_its_schema_and_breaks_the_rollout_is_found():
    (finding,) = await drift._look_at_allowed(await case_of(partial(desk, "crash")))
    assert finding.code == "D08.crash"
    assert finding.witness is not None
    assert "KeyError" in finding.witness.observed


def machine(*, own_terminal: bool) -> Environment:
    """An environment with the sandbox's `bash` and `terminal`, or with a tool of its own that is called `terminal`."""
    env = Environment("machine", image="host", tools=["bash"] if own_terminal else ["bash", "terminal"])

    @env.tasks
    def tasks(rng: Random):
        yield Task("one", prompt="Write 1 to /out/one.")

    @env.check(points=1)
    def is_there(evidence: Evidence, task: Task) -> bool:
        return evidence.read_text("/out/one").strip() == "1"

    @env.tool
    def ring(world: World, times: int) -> str:
        """Ring."""
        return "ding" * times

    if own_terminal:

        @env.tool
        def terminal(world: World, text: str) -> str:
            """The terminal of the airport."""
            return text

    return env


@pytest.mark.parametrize(("own_terminal", "names"), [(False, ["ring"]), (True, ["ring", "terminal"])])
async def test_the_sandboxs_own_shell_and_terminal_are_not_tools_of_the_author(own_terminal, names):
    """Calls of a terminal wait for what they ask for: playing all that its schema allows takes hours and shows nothing."""
    case = await case_of(partial(machine, own_terminal=own_terminal))
    case.description = msgspec.structs.replace(case.description, image="host")
    assert [spec.name for spec in drift.author_tools(case)] == names


async def test_a_weak_grader_gives_mutants_full_marks():
    findings = await mutation._look_at_mutants(await case_of(partial(desk, "weak")))
    assert "D02.weak" in {finding.code for finding in findings}


def letters() -> Environment:
    """Read the mailbox often, then send one mail: in a world with a clock, each call takes time."""
    env = Environment("letters", apps=[MAIL])

    @env.tasks
    def tasks(rng: Random):
        for number in range(3):
            yield Task(f"letter-{number}", prompt=f"Mail number {number} to bob@x.example.", key={"number": f"number {number}"})

    @env.base
    def fill(apps, rng: Random) -> None:
        load_mail(apps.mail, accounts={"ada@x.example": "Ada", "bob@x.example": "Bob"}, messages=[])

    @env.setup
    def prepare(world: World, task: Task) -> None:
        world.apps.actor = "ada@x.example"

    @env.check(points=1)
    def sent(evidence: Evidence, task: Task) -> bool:
        mails = [change.after for change in evidence.apps.mail.changes("content")]
        return [(mail["to_list"], mail["subject"], mail["body"]) for mail in mails] == [
            ("bob@x.example", "It", task.key["number"])
        ]

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        for number in range(5):
            await agent.call("search_emails", query=f"subject:{number}")
        await agent.call("send_email", to=["bob@x.example"], subject="It", body=task.key["number"])
        await agent.say("done")

    return env


async def test_a_reading_call_less_is_no_wrong_solution_where_only_the_time_differs():
    findings = await mutation._look_at_mutants(await case_of(letters))
    assert "D02.weak" not in {finding.code for finding in findings}


async def test_a_check_that_pays_every_agent_is_dead():
    findings = await mutation._look_at_mutants(await case_of(partial(desk, "dead")))
    assert [finding.check for finding in findings if finding.code == "D21.dead"] == ["desk_is_there"]


async def test_mutants_are_the_same_for_the_same_seed_and_mostly_leave_something_else():
    case = await case_of(desk)
    (work, other, *_) = await find_works(case, case.tasks)
    assert mutants(work, [other], 1) == mutants(work, [other], 1)
    assert mutants(work, [other], 1) != mutants(work, [other], 2)


async def test_golden_beyond_its_limits_is_unsolved_and_close_to_them_is_reported():
    case = await case_of(desk)
    case.description = __import__("msgspec").structs.replace(case.description, limits=case.description.limits.but({"turns": 6}))
    (margin,) = await controls._look_at_margins(case)
    assert (margin.code, margin.severity) == ("D13.margin", "low")


async def test_an_idle_trial_has_no_changes():
    case = await case_of(desk)
    idle, golden = await case.idle(), await case.golden()
    task = case.tasks[0].id
    assert changes_between(idle[task], idle[task]) == {}
    assert {where.rpartition(".")[2] for where in changes_between(idle[task], golden[task])} == {"refunded", "status"}


async def test_calls_made_from_a_schema_keep_to_it_or_break_it():
    case = await case_of(desk)
    spec = next(spec for spec in case.description.tools if spec.name == "refund")
    assert all(isinstance(call.arguments["cents"], int) for call in allowed_calls(spec, [], 0))
    assert {what for what, _ in forbidden_calls(spec, {"ticket": "a", "cents": 1})} >= {
        "without `cents`",
        "`ticket` is an object",
    }


async def test_results_of_sound_tools_are_not_cut():
    assert await visibility._look_at_cuts(await case_of(files)) == []


def test_stored_answers_are_copied_from_visible_tests():
    made = stored_answers(
        "/w/shop.py", {"/w/test_shop.py": "from shop import price\nassert price(2, 3) == 6\n"}, "- `price(1, 1) == 1`"
    )
    space: dict = {}
    exec(made or "", space)
    assert space["price"](2, 3) == 6
    assert space["price"](1, 1) == 1
    assert space["price"](2, 4) == "garbage"


def free_desk():
    """A desk whose golden solution passes a 0."""
    env = Environment("free", state=dict)

    @env.tasks
    def tasks(_rng: Random):
        for name in ("ann", "bob", "cid"):
            yield Task(name, prompt=f"Close the case of {name} for 0 cents.", key={"name": name})

    @env.tool
    def close(world: World, name: str, cents: int) -> str:
        """Close a case."""
        world.state[name] = cents
        return "closed"

    @env.check(points=1)
    def closed(evidence: Evidence, task: Task) -> bool:
        """It is closed, for nothing."""
        return evidence.state == {task.key["name"]: 0}

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("close", name=task.key["name"], cents=0)
        await agent.say("done")

    return env


async def test_a_zero_has_no_mutant_with_the_wrong_sign():
    case = await case_of(free_desk)
    (work, *others) = await find_works(case, case.tasks)
    assert not any("cents` with the wrong sign" in mutant.what for mutant in mutants(work, others, 1))
    assert codes(await mutation._look_at_mutants(case)) == set()
