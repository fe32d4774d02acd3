"""Searching for plays far from golden: what the task asks for must matter, and each finding says why its play is wrong."""

from drive.in_process import case_of, codes
from sandlot import Environment, Task
from sandlot.audit.finding import Confidence
from sandlot.audit.probes.search.calls import _look_at_plays
from sandlot.audit.probes.search.checks import _look_at_checks
from sandlot.audit.probes.search.impossible import _look_at_twins
from sandlot.audit.reason import ReasonKind

ITEMS = ("bolts", "cable", "screws", "tiles")


def orders(paid, *, logs: bool = False):
    """Golden orders what the prompt names, and then what it costs is booked; `paid` grades the state, if it is given."""

    def make() -> Environment:
        env = Environment("orders")

        @env.tasks
        def tasks(rng):
            for number, item in enumerate(ITEMS):
                amount, cost = 12 + number, 340 + 7 * number
                prompt = f"Order {amount} {item}, and book {cost} cents."
                yield Task(item, prompt=prompt, key={"item": item, "amount": amount, "cost": cost})

        @env.setup
        def start(world, task) -> None:
            world.state = {"orders": {}, "booked": 0, "log": []}

        @env.tool
        async def look(world, item: str) -> str:
            """Look whether an item is there."""
            if logs:
                world.state["log"].append(item)
            return f"{item} is there"

        @env.tool
        async def order(world, item: str, amount: int) -> str:
            """Order an item."""
            world.state["orders"][item] = amount
            return "ordered"

        @env.tool
        async def book(world, cents: int) -> str:
            """Book a cost."""
            world.state["booked"] += cents
            return "booked"

        if paid is not None:

            @env.check(points=1)
            def done(evidence, task) -> bool:
                return paid(evidence.state, task.key)

        @env.solution
        async def solve(agent, task) -> None:
            await agent.call("look", item=task.key["item"])
            await agent.call("order", item=task.key["item"], amount=task.key["amount"])
            await agent.call("book", cents=task.key["cost"])
            await agent.say("done")

        return env

    return make


def right(state, key) -> bool:
    return state["orders"] == {key["item"]: key["amount"]} and state["booked"] == key["cost"]


async def small(make, budget_s: float = 24.0):
    """An audit with a small budget: a smaller search."""
    case = await case_of(make)
    case.budget_s = budget_s
    return case


async def found(paid, **options):
    return await _look_at_plays(await small(orders(paid, **options)))


async def test_a_grader_that_reads_everything_is_not_blamed():
    assert await found(right) == []


async def test_a_log_of_what_was_read_is_not_work_that_is_asked_for():
    assert await found(right, logs=True) == []


async def test_a_value_that_is_asked_for_and_not_read():
    finding, *leads = await found(lambda state, key: key["item"] in state["orders"] and state["booked"] == key["cost"])
    assert [each.code for each in leads] == ["D02.beside"]
    assert (finding.code, finding.standing) == ("D02.far", Confidence.CONFIRMED)
    assert "`order`" in finding.title
    assert finding.reason.kind is ReasonKind.CONTRADICTS


async def test_a_step_that_can_be_left_out():
    (finding,) = await found(lambda state, key: state["orders"] == {key["item"]: key["amount"]})
    assert "`book`" in finding.title
    assert "left out" in finding.title
    assert "golden leaves it at `state.booked`" in finding.reason.why


async def test_of_two_steps_of_which_either_is_enough_each_is_found_alone():
    def either(state, key) -> bool:
        return key["item"] in state["orders"] or state["booked"] == key["cost"]

    findings = await found(either)
    assert {each.standing for each in findings} == {Confidence.CONFIRMED}
    assert all("of turn" in each.witness.expected and " and " not in each.witness.expected for each in findings)


async def test_more_than_what_is_asked_for():
    (finding,) = await found(
        lambda state, key: state["orders"] == {key["item"]: key["amount"]} and state["booked"] >= key["cost"]
    )
    assert finding.standing is Confidence.CONFIRMED
    assert "ten times as much" in finding.title


async def test_the_work_of_other_tasks_beside_golden_is_a_lead():
    def among_others(state, key) -> bool:
        return state["orders"].get(key["item"]) == key["amount"] and state["booked"] == key["cost"]

    (finding,) = await found(among_others)
    assert (finding.code, finding.standing) == ("D02.beside", Confidence.LEAD)
    assert "alone" in finding.reason.why


def counted() -> Environment:
    """Golden counts, which leaves a note of the count, and says it. Only what it says is graded."""
    env = Environment("counted")

    @env.tasks
    def tasks(rng):
        for number, item in enumerate(ITEMS):
            yield Task(item, prompt=f"How many {item} are there?", data={"there": 478 + number}, key={"there": 478 + number})

    @env.tool
    async def count(world, item: str) -> str:
        """Count an item."""
        world.state[item] = world.task.data["there"]
        return str(world.state[item])

    @env.check(points=1)
    def said(evidence, task) -> bool:
        return evidence.answer == str(task.key["there"])

    @env.solution
    async def solve(agent, task) -> None:
        await agent.call("count", item=task.id)
        await agent.say(str(task.key["there"]))

    return env


async def test_a_note_of_what_was_read_and_then_said_is_not_the_work():
    assert await _look_at_twins(await case_of(counted)) == []
    assert await _look_at_plays(await small(counted)) == []


async def test_the_same_seed_finds_the_same():
    def unread(state, key) -> bool:
        return key["item"] in state["orders"]

    assert await found(unread) == await found(unread)


# -- check by check ------------------------------------------------------------------------------------------------------------


def checked(*, reads: bool):
    """Two checks: the second reads what was booked, or only that something was."""

    def make() -> Environment:
        env = orders(None)()

        @env.check(points=1)
        def ordered(evidence, task) -> bool:
            return evidence.state["orders"] == {task.key["item"]: task.key["amount"]}

        @env.check(points=1)
        def booked(evidence, task) -> bool:
            return evidence.state["booked"] == task.key["cost"] if reads else bool(evidence.state["booked"])

        return env

    return make


async def test_a_check_that_asks_only_for_presence_is_named():
    (lead,) = await _look_at_checks(await small(checked(reads=False)))
    assert (lead.code, lead.check, lead.standing) == ("D21.unmoved", "booked", Confidence.LEAD)
    assert "`book` earns check `booked`" in lead.title
    assert await _look_at_checks(await small(checked(reads=True))) == []


# -- impossible twins ----------------------------------------------------------------------------------------------------------


def claimed(*, reads_calls: bool):
    def make() -> Environment:
        env = orders(None)()

        @env.check(points=1)
        def done(evidence, task) -> bool:
            calls = [call.name for node in evidence.trace.nodes for call in node.message.calls]
            return {"order", "book"} <= set(calls) if reads_calls else right(evidence.state, task.key)

        return env

    return make


async def test_calls_that_were_all_refused_earn_nothing():
    findings = await _look_at_twins(await case_of(claimed(reads_calls=True)))
    assert codes(findings) == {"D02.impossible"}
    assert findings[0].reason.kind is ReasonKind.LEAVES_OUT
    assert await _look_at_twins(await case_of(claimed(reads_calls=False))) == []
