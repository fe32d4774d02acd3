"""Several agents in one world: order, messages, scores of their own, failures, and what is stored."""

import signal
import threading
from pathlib import Path

import anyio
import pytest

from sandlot import Agent, Constraint, Environment, Failed, Limits, Run, Scored, Seat, Task, run, run_async, seat_trace
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.trace import OUTPUT_CUT
from sandlot.core.types import End, Role
from sandlot.grade.view import transcript
from sandlot.interop.export import ExportKind, export_run
from sandlot.observe.events import RolloutEnded
from sandlot.run.regrade import regrade_run

TASK = "one"


def market(solve, *, name: str = "market", rounds: int = 2, **options) -> Environment:
    """Two seats that say numbers. What one says is told to the other; `deal` ends it. The lower number is the buyer's gain."""
    env = Environment(
        name, seats=["buyer", "seller"], state=lambda: {"said": [], "rounds": []}, limits=Limits(turns=rounds), **options
    )

    @env.tasks
    def tasks(_rng):
        yield Task(TASK, prompt="Agree.", data={"buyer": "8", "seller": "2"})

    @env.setup
    def begin(world, task):
        for seat in ("buyer", "seller"):
            world.tell(seat, f"Your limit is {task.data[seat]}.")

    @env.user
    def reply(world, text):
        world.state["said"].append([world.seat, text])
        world.tell("seller" if world.seat == "buyer" else "buyer", f"{world.seat}: {text}")
        if text == "deal":
            world.end()
        return ""

    @env.round
    def settle(world, number):
        world.state["rounds"].append([number, len(world.state["said"]), world.seat])

    @env.check(points=1, seat="buyer")
    def bought_low(evidence, task):
        return 1 - float(evidence.state["said"][0][1]) / 10

    @env.check(points=1, seat="seller")
    def sold_high(evidence, task):
        return float(evidence.state["said"][0][1]) / 10

    @env.check(points=2)
    def both_spoke(evidence, task):
        return {seat for seat, _ in evidence.state["said"]} == {"buyer", "seller"}

    env.marked.solution = solve
    return env


def saying(**texts: str):
    """A solution in which each seat says these words, one per turn, and notes what it was told."""
    heard: dict[str, list[str]] = {}

    async def solve(agent: Agent, task: Task) -> None:
        heard[agent.seat] = [agent.prompt]
        for text in texts[agent.seat].split():
            heard[agent.seat].append(await agent.say(text))

    return solve, heard


def play(env: Environment, tmp_path: Path, model: str = "scripted:golden", **options) -> Run:
    return run(env, model, runs=tmp_path, **options)


def test_in_turn_a_seat_sees_what_those_before_it_did_in_the_same_round(tmp_path):
    solve, heard = saying(buyer="3 4", seller="9 7")
    trace = play(market(solve), tmp_path).trace(TASK)
    assert heard["buyer"][:2] == ["Agree.\nYour limit is 8.", "seller: 9"]
    assert heard["seller"][:2] == ["Agree.\nYour limit is 2.\nbuyer: 3", "buyer: 4"]
    assert trace.evidence.state["said"] == [["buyer", "3"], ["seller", "9"], ["buyer", "4"], ["seller", "7"]]


def test_at_once_nobody_sees_what_the_others_do_in_the_same_round(tmp_path):
    solve, heard = saying(buyer="3 4", seller="9 7")
    trace = play(market(solve, order="at once"), tmp_path).trace(TASK)
    assert heard["buyer"][:2] == ["Agree.\nYour limit is 8.", "seller: 9"]
    assert heard["seller"][:2] == ["Agree.\nYour limit is 2.", "buyer: 3"]
    assert trace.evidence.state["said"] == [["buyer", "3"], ["seller", "9"], ["buyer", "4"], ["seller", "7"]]


@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_a_round_is_over_when_every_seat_has_acted(tmp_path, order):
    solve, _ = saying(buyer="3 4", seller="9 7")
    trace = play(market(solve, order=order), tmp_path).trace(TASK)
    assert trace.evidence.state["rounds"] == [[1, 2, ""], [2, 4, ""]]


def test_an_end_in_turn_is_heard_before_the_next_seat_acts(tmp_path):
    solve, _ = saying(buyer="3 deal", seller="9 7")
    trace = play(market(solve, rounds=5), tmp_path).trace(TASK)
    assert [seat for seat, _ in trace.evidence.state["said"]] == ["buyer", "seller", "buyer"]
    assert trace.end is End.DONE
    assert seat_trace(trace, "seller").nodes[-1].message.text == "buyer: deal"


@pytest.mark.parametrize(("order", "num_said"), [("in turn", 3), ("at once", 4)])
def test_the_round_in_which_the_world_ends_is_settled_once(tmp_path, order, num_said):
    solve, _ = saying(buyer="3 deal", seller="9 7")
    trace = play(market(solve, rounds=5, order=order), tmp_path).trace(TASK)
    assert trace.evidence.state["rounds"] == [[1, 2, ""], [2, num_said, ""]]


def test_an_end_in_the_last_turn_of_a_seat_is_settled_once_and_heard(tmp_path):
    solve, _ = saying(buyer="3 deal", seller="9 7")
    trace = play(market(solve, rounds=2), tmp_path).trace(TASK)
    assert trace.evidence.state["rounds"] == [[1, 2, ""], [2, 3, ""]]
    assert [record.end for record in trace.seats.values()] == [End.TURN_LIMIT, End.DONE]


@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_nobody_acts_in_a_world_that_setup_has_ended(tmp_path, order):
    env = _checked_by("", seats=["a", "b"], order=order, state=lambda: {"rounds": 0})
    env.setup(lambda world, _task: world.end())

    @env.round
    def settle(world, number):
        world.state["rounds"] += 1

    trace = run(env, "scripted:noop", runs=tmp_path).trace(TASK)
    assert (trace.num_turns, trace.evidence.state["rounds"], trace.end) == (0, 0, End.DONE)


def test_an_end_at_once_lets_the_others_finish_the_round(tmp_path):
    solve, _ = saying(buyer="3 deal", seller="9 7")
    trace = play(market(solve, rounds=5, order="at once"), tmp_path).trace(TASK)
    assert trace.evidence.state["said"] == [["buyer", "3"], ["seller", "9"], ["buyer", "deal"], ["seller", "7"]]


def test_a_seat_that_has_ended_does_not_hold_the_others_up(tmp_path):
    solve, _ = saying(buyer="3", seller="9 7 6 5")
    trace = play(market(solve, rounds=4), tmp_path, seats={"buyer": "scripted:refuse"}).trace(TASK)
    assert [record.end for record in trace.seats.values()] == [End.REFUSED, End.TURN_LIMIT]
    assert trace.end is End.REFUSED
    assert [seat for seat, _ in trace.evidence.state["said"]] == ["seller"] * 4


def test_every_seat_has_its_own_score_and_shares_the_checks_of_no_seat(tmp_path):
    solve, _ = saying(buyer="3", seller="9")
    trace = play(market(solve, rounds=1), tmp_path).trace(TASK)
    scores = {seat: record.score for seat, record in trace.seats.items()}
    assert {seat: (score.points, score.possible) for seat, score in scores.items()} == {"buyer": (2.7, 3), "seller": (2.3, 3)}
    assert isinstance(trace.outcome, Scored)
    assert (trace.outcome.score.points, trace.outcome.score.possible) == (3.0, 4.0)


def test_a_seats_trace_is_one_of_a_single_agent(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    trace = play(market(solve), tmp_path).trace(TASK)
    own = seat_trace(trace, "seller")
    assert [node.message.text for node in own.path()] == ["Agree.\nYour limit is 2.\nbuyer: 3", "9", "buyer: 4", "7", ""]
    assert {node.message.agent for node in own.turns()} == {"agent"}
    assert own.reward == trace.seats["seller"].score.value
    assert {node.message.agent for node in trace.turns()} == {"buyer", "seller"}
    with pytest.raises(ConfigError, match="no seat `judge`; its seats: buyer, seller"):
        seat_trace(trace, "judge")


def test_the_rounds_of_a_stored_trace_are_in_the_order_of_the_seats(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    trace = play(market(solve, order="at once"), tmp_path).trace(TASK)
    assert [(node.message.agent, node.message.text) for node in trace.turns()] == [
        ("buyer", "3"),
        ("seller", "9"),
        ("buyer", "4"),
        ("seller", "7"),
    ]


@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_a_seat_that_fails_fails_the_rollout_and_nobody_has_a_score(tmp_path, order):
    solve, _ = saying(buyer="3 4", seller="9 7")
    done = play(market(solve, order=order), tmp_path, seats={"seller": "scripted:crash"})
    trace = done.trace(TASK)
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind) == ("model", "crash")
    assert [record.score for record in trace.seats.values()] == [None, None]
    assert isinstance(seat_trace(trace, "buyer").outcome, Failed)
    assert done.summary().machine_readable()["seats"]["buyer"]["mean"] is None


def test_all_seats_may_fail_at_the_same_time(tmp_path):
    trace = play(market(None, order="at once"), tmp_path, "scripted:crash").trace(TASK)
    assert isinstance(trace.outcome, Failed)
    assert trace.outcome.side == "model"


def test_a_model_that_hangs_at_one_seat_ends_that_seat_only(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    env = market(solve)
    env.limits = Limits(turns=2, time_s=0.3)
    trace = play(env, tmp_path, seats={"buyer": "scripted:hang"}).trace(TASK)
    assert [record.end for record in trace.seats.values()] == [End.TIME_LIMIT, End.TURN_LIMIT]
    assert [event.detail["seat"] for event in trace.events if event.detail.get("limit") == "time_limit"] == ["buyer"]


def test_waiting_for_another_seat_takes_no_time_of_ones_own(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    env = market(solve)
    env.limits = Limits(turns=2, time_s=0.5)
    trace = play(env, tmp_path, seats={"buyer": "scripted:hang"}).trace(TASK)
    assert trace.seats["seller"].end is End.TURN_LIMIT  # it waited 0.5 s for its first turn
    assert sum(trace.phases.values()) < 5 * 0.5


def test_a_seat_whose_time_ends_before_the_end_of_a_round_does_not_hold_the_others_up(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    env = market(solve)
    env.limits = Limits(turns=2, time_s=0.3)

    @env.tool
    async def work(world) -> str:
        """Work on when the time is up."""
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.5)
        return "done"

    async def work_last(agent: Agent, task: Task) -> None:
        await (agent.call("work") if agent.seat == "seller" else solve(agent, task))

    env.marked.solution = work_last

    async def play_for_a_while() -> Run:
        with anyio.fail_after(20):
            return await run_async(env, "scripted:golden", runs=tmp_path)

    trace = anyio.run(play_for_a_while).trace(TASK)
    assert [record.end for record in trace.seats.values()] == [End.TURN_LIMIT, End.TIME_LIMIT]
    assert trace.evidence.state == {"said": [["buyer", "3"], ["buyer", "4"]], "rounds": [[1, 1, ""], [2, 2, ""]]}


def test_a_flood_from_one_seat_is_cut_before_another_reads_it(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    env = market(solve, rounds=1)
    env.limits = Limits(turns=1, tool_output_chars=100)
    own = seat_trace(play(env, tmp_path, seats={"buyer": "scripted:flood"}, tasks=(TASK,)).trace(TASK), "seller")
    assert "cut" in own.nodes[0].message.text
    assert len(own.nodes[0].message.text) < 300


def flooded(tmp_path, **limits: int):
    """The trace of a seller whom the buyer tells 50 texts in each of two rounds."""
    solve, _ = saying(buyer="3 4", seller="9 7")
    env = market(solve)
    env.limits = Limits(turns=2, **limits)
    env.marked.setup = None

    @env.tool
    def shout(world) -> str:
        """Shout."""
        for number in range(50):
            world.tell("seller", f"{number:03} " + "x" * 96)
        return "shouted"

    async def shout_first(agent: Agent, task: Task) -> None:
        for _ in range(2):
            await (agent.call("shout") if agent.seat == "buyer" else agent.say("9"))

    env.marked.solution = shout_first
    return seat_trace(play(env, tmp_path).trace(TASK), "seller")


def test_many_texts_for_one_seat_are_cut_as_one_tool_result(tmp_path):
    own = flooded(tmp_path, tool_output_chars=300)
    heard = [node.message.text for node in own.nodes if node.message.role is Role.USER][:2]
    assert [len(text) < 400 and "of 5049 characters cut here" in text for text in heard] == [True, True]
    cut = [event.detail for event in own.events if event.kind == OUTPUT_CUT]
    assert [(detail["chars"], detail["shown"]) for detail in cut] == [(5049, 300)] * 2


def test_what_a_seat_is_told_counts_towards_its_output(tmp_path):
    own = flooded(tmp_path, rollout_output_bytes=6_000)
    first, second = [node.message.text for node in own.nodes if node.message.role is Role.USER][:2]
    assert len(first) == len("Agree.\n") + 5049
    assert second.endswith("[4098 bytes cut: this rollout's 6000 bytes of tool results are used up]")
    assert [event.detail["bytes"] for event in own.events if event.kind == "tool_output_budget"] == [5049]


def test_tools_of_a_seat_are_its_own_and_know_who_calls(tmp_path):
    env = Environment(
        "desk", seats=[Seat("clerk", tools=["stamp"]), Seat("boss", system="You are the boss.")], state=lambda: {"by": []}
    )

    @env.tasks
    def tasks(_rng):
        yield Task(TASK, prompt="Work.")

    @env.tool
    def stamp(world) -> str:
        """Stamp it."""
        world.state["by"].append(world.seat)
        world.tell("boss", "It is stamped.")
        return "stamped"

    @env.tool
    def sign(world) -> str:
        """Sign it."""
        world.state["by"].append(world.seat)
        return "signed"

    @env.check(points=1)
    def done(evidence, task):
        return evidence.state["by"] == ["clerk", "boss", "boss"]

    seen = {}

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        seen[agent.seat] = ([tool.name for tool in agent.tools], agent.prompt)
        for tool in ("stamp", "sign"):
            seen[agent.seat, tool] = await agent.call(tool)
        await agent.say("Done.")

    trace = run(env, "scripted:golden", runs=tmp_path).trace(TASK)
    assert seen["clerk"] == (["stamp"], "Work.")
    assert seen["boss"] == (["stamp", "sign"], "You are the boss.\nWork.\nIt is stamped.")
    assert seen["clerk", "sign"].startswith("There is no tool `sign`.")
    assert trace.reward == 1.0


def test_a_tool_that_runs_on_after_its_time_does_not_act_for_the_next_seat(tmp_path):
    go_on, gone_on = threading.Event(), threading.Event()
    seen: list[str] = []
    env = _checked_by("", seats=["slow", "next"], state=lambda: {"finish": "?"})

    @env.tool
    def linger(world) -> str:
        """Take longer than allowed."""
        go_on.wait(20)
        seen.append(world.seat)
        for act in (lambda: world.tell("next", "I am still here."), world.end):
            try:
                act()
            except AuthorError as error:
                seen.append(str(error))
        gone_on.set()
        return "late"

    @env.tool
    def look(world) -> str:
        """Let the other one go on, and say who looks."""
        go_on.set()
        gone_on.wait(20)
        return world.seat

    @env.finish
    def finish(world, task):
        world.state["finish"] = world.seat

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        for tool in ("linger", "look") if agent.seat == "slow" else ("look", "look"):
            seen.append(await agent.call(tool))

    env.limits = Limits(turns=2, tool_s=2)
    trace = run(env, "scripted:golden", runs=tmp_path).trace(TASK)
    late = "was called for seat `slow` after its time was up; it had no effect"
    assert seen[:3] == ["slow", f"`world.tell` {late}", f"`world.end` {late}"]
    assert [record.end for record in trace.seats.values()] == [End.TURN_LIMIT] * 2
    assert "still here" not in str(trace.nodes)
    assert trace.evidence.state["finish"] == ""


def test_a_penalty_costs_the_seat_that_broke_the_rule(tmp_path):
    rule = Constraint(id="quiet", tool="shout", on_breach="penalty", points=0.5)
    env = Environment("hall", seats=["loud", "still"], constraints=[rule])

    @env.tasks
    def tasks(_rng):
        yield Task(TASK, prompt="Be quiet.")

    @env.tool
    def shout() -> str:
        """Shout."""
        return "!"

    @env.check(points=1)
    def there(evidence, task):
        return True

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        if agent.seat == "loud":
            await agent.call("shout")
        await agent.say("Done.")

    trace = run(env, "scripted:golden", runs=tmp_path).trace(TASK)
    assert {seat: record.score.value for seat, record in trace.seats.items()} == {"loud": 0.5, "still": 1.0}
    assert trace.reward == 0.5


@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_the_same_seed_gives_the_same_rollouts_and_seats_draw_differently(tmp_path, order):
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say("3")
        await agent.say("4")

    first = run(market(solve, order=order), "scripted:mixed:0.5", runs=tmp_path / "a", group=12, seed=4)
    second = run(market(solve, order=order), "scripted:mixed:0.5", runs=tmp_path / "b", group=12, seed=4, at_once=1)
    said = [{trace.rollout: _said(trace) for trace in done} for done in (first, second)]
    assert said[0] == said[1]
    assert any(texts["buyer"] != texts["seller"] for texts in said[0].values())


def _said(trace):
    return {seat: [node.message.text for node in seat_trace(trace, seat).turns()] for seat in trace.seats}


async def test_an_interrupted_run_is_continued_with_every_rollout_once(tmp_path):
    ended = []

    def interrupt(event) -> None:
        ended.extend([event] if isinstance(event, RolloutEnded) else [])
        if len(ended) == 3:
            signal.raise_signal(signal.SIGINT)

    solve, _ = saying(buyer="3 4", seller="9 7")
    options = {"runs": tmp_path, "group": 12, "at_once": 2}
    first = await run_async(market(solve), "scripted:golden", sink=interrupt, **options)
    assert 3 <= len(first) < 12
    again = await run_async(market(solve), "scripted:golden", **options)
    assert again.path == first.path
    assert sorted(trace.rollout for trace in again) == list(range(12))
    assert {str(_said(trace)) for trace in again} == {"{'buyer': ['3', '4'], 'seller': ['9', '7']}"}


def test_a_recorded_rollout_is_replayed_seat_by_seat(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    first = play(market(solve), tmp_path)
    again = play(market(None), tmp_path, f"replay:{first.path}").trace(TASK)
    assert _said(again) == {"buyer": ["3", "4"], "seller": ["9", "7"]}
    assert not [event for event in again.events if event.kind == "replay_diverged"]


def test_a_judge_reads_every_seat(tmp_path):
    solve, _ = saying(buyer="3 4", seller="9 7")
    text = transcript(play(market(solve), tmp_path).trace(TASK))
    assert '{"role": "buyer\'s assistant", "text": "3"}' in text
    assert '{"role": "seller\'s assistant", "text": "7"}' in text


def test_the_summary_has_each_seats_score(tmp_path):
    solve, _ = saying(buyer="3", seller="9")
    summary = play(market(solve, rounds=1), tmp_path, group=3).summary()
    assert {seat: round(own.value, 6) for seat, own in summary.seats.items()} == {"buyer": 0.9, "seller": round(2.3 / 3, 6)}
    assert summary.machine_readable()["seats"]["buyer"]["mean"] == pytest.approx(0.9)


def test_an_export_of_one_conversation_is_refused(tmp_path):
    solve, _ = saying(buyer="3", seller="9")
    with pytest.raises(ConfigError, match=r"several agents in each rollout \(buyer, seller\)"):
        export_run(play(market(solve, rounds=1), tmp_path), ExportKind.SFT, split=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seats": ["one"]}, "give two or more with different names"),
        ({"seats": ["one", "one"]}, "give two or more with different names"),
        ({"seats": "ab"}, "give a list"),
        ({"seats": ["a b", "c"]}, "seat name 'a b'"),
        ({"seats": ["a", "b"], "order": "random"}, "order='random' is unknown; use 'in turn', 'at once'"),
        ({"seats": [Seat("a", tools=["fly"]), "b"]}, "seat `a` lists the tool `fly`, which does not exist"),
    ],
)
def test_wrong_seats_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        run(_checked_by("", **options), "scripted:noop", runs=tmp_path)


def _checked_by(seat: str, **options) -> Environment:
    env = Environment("room", **options)
    env.tasks(lambda _rng: iter([Task(TASK)]))

    @env.check(points=1, seat=seat)
    def fine(evidence, task):
        return True

    return env


def test_a_check_of_an_unknown_seat_and_a_seat_without_points_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="counts for seat `c`; its seats: a, b"):
        run(_checked_by("c", seats=["a", "b"]), "scripted:noop", runs=tmp_path)
    with pytest.raises(ConfigError, match="no check gives seat `b` points"):
        run(_checked_by("a", seats=["a", "b"]), "scripted:noop", runs=tmp_path)
    with pytest.raises(ConfigError, match="counts for seat `a`; its seats: none"):
        run(_checked_by("a"), "scripted:noop", runs=tmp_path)


def test_a_model_for_an_unknown_seat_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="has no seat `c`; its seats: a, b"):
        run(_checked_by("", seats=["a", "b"]), "scripted:noop", runs=tmp_path, seats={"c": "scripted:noop"})


def test_telling_a_seat_that_is_not_there_is_the_environments_failure(tmp_path):
    env = _checked_by("", seats=["a", "b"])
    env.setup(lambda world, _task: world.tell("c", "hello"))
    outcome = run(env, "scripted:noop", runs=tmp_path).trace(TASK).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.side, "there is no seat `c`; seats: a, b" in outcome.message) == ("environment", True)


async def test_a_single_session_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="has seats for several agents"):
        async with _checked_by("", seats=["a", "b"]).session(TASK):
            pass


async def test_regrading_gives_the_same(tmp_path):
    file = tmp_path / "pair.py"
    file.write_text(
        "from sandlot import Environment, Task\n"
        "env = Environment('pair', seats=['a', 'b'])\n"
        "env.tasks(lambda rng: iter([Task('one', prompt='Speak.')]))\n"
        "@env.check(points=1, seat='a')\n"
        "def first(evidence, task):\n    return 0.25\n"
        "@env.check(points=1, seat='b')\n"
        "def second(evidence, task):\n    return 0.75\n"
    )
    done = await run_async(file, "scripted:noop", runs=tmp_path)
    report = await regrade_run(done.path)
    assert (report.regraded, report.same) == (1, 1)
