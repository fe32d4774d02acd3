"""Propose, run, learn, propose: every claim is run, and confirmed or not by reasons of the audit's own."""

import json
from pathlib import Path

import pytest

from drive.in_process import case_of
from fakes.endpoint import FakeEndpoint, says, status
from sandlot import Environment, Task
from sandlot.audit.attacker.attacker import AttackPlan, ChatAttacker, FileAttacker, read_replies
from sandlot.audit.attacker.loop import PROBE
from sandlot.audit.attacker.opening import open_attack
from sandlot.audit.finding import Confidence
from sandlot.audit.reason import ReasonKind
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.testing.fakes import ScriptedChat


def payments(*, reads: bool = True):
    """Golden pays what the prompt names; the grader reads the amount, or only that something was paid to Ann."""

    def make() -> Environment:
        env = Environment("payments", system="Pay what is asked for.")

        @env.tasks
        def tasks(rng):
            for number in range(3):
                cents = 340 + 7 * number
                yield Task(f"pay-{number}", prompt=f"Pay {cents} cents to Ann.", key={"cents": cents})

        @env.tool
        async def pay(world, to: str, cents: int) -> str:
            """Pay."""
            world.state.setdefault("paid", {})[to] = cents
            return "paid"

        @env.check(points=1)
        def ann_is_paid(evidence, task) -> bool:
            paid = evidence.state.get("paid", {}).get("Ann")
            return paid == task.key["cents"] if reads else paid is not None

        @env.solution
        async def solve(agent, task) -> None:
            await agent.call("pay", to="Ann", cents=task.key["cents"])
            await agent.say("done")

        return env

    return make


def play(task="pay-0", cents=1, name="one cent", claim="attack", said="done") -> dict:
    turns = [[{"do": "call", "tool": "pay", "arguments": {"to": "Ann", "cents": cents}}], [{"do": "say", "text": said}]]
    return {"task": task, "name": name, "claim": claim, "turns": turns}


def reply(*proposals) -> str:
    return json.dumps({"proposals": list(proposals)})


async def attacked(attacker, make, *, rounds: int = 2, record: Path | None = None, reads_code: bool = False):
    case = await case_of(make)
    case.attack = AttackPlan(attacker, reads_code=reads_code, rounds=rounds, record=record)
    return await PROBE.run(case)


async def test_an_attack_that_scores_is_confirmed_by_what_the_task_asks_for_and_made_small():
    (finding,) = await attacked(ChatAttacker(ScriptedChat(reply(play()))), payments(reads=False), rounds=1)
    assert (finding.code, finding.standing) == ("D02.proposed", Confidence.CONFIRMED)
    assert finding.reason.kind is ReasonKind.CONTRADICTS
    assert "`340`" in finding.reason.why
    assert len(finding.witness.inputs["play"]["turns"]) == 1, "the message is not needed"


async def test_whatever_the_attacker_claims_right_work_is_no_finding():
    assert await attacked(ChatAttacker(ScriptedChat(reply(play(cents=340)))), payments(), rounds=1) == []
    assert await attacked(ChatAttacker(ScriptedChat(reply(play(cents=1)))), payments(), rounds=1) == []
    (lead,) = await attacked(ChatAttacker(ScriptedChat(reply(play(cents=340, said="Ha.")))), payments(), rounds=1)
    assert lead.standing is Confidence.LEAD


async def test_a_right_answer_that_is_refused_is_a_lead_and_confirmed_if_it_leaves_what_golden_leaves():
    def picky():
        env = payments()()

        @env.check(points=1)
        def polite(evidence, task) -> bool:
            return evidence.answer == "done"

        return env

    (lead,) = await attacked(ChatAttacker(ScriptedChat(reply(play(cents=341, claim="right")))), payments(), rounds=1)
    assert (lead.code, lead.standing) == ("D15.proposed", Confidence.LEAD)
    (found,) = await attacked(ChatAttacker(ScriptedChat(reply(play(cents=340, claim="right", said="Done.")))), picky, rounds=1)
    assert (found.code, found.standing) == ("D15.proposed", Confidence.CONFIRMED)


async def test_it_learns_what_became_of_its_plays_and_reads_the_tools_and_prompts():
    chat = ScriptedChat(reply(play(), {"task": "nowhere", "name": "n", "turns": [[{"do": "say", "text": "x"}]]}), "no JSON")
    await attacked(ChatAttacker(chat), payments(), rounds=3)
    first, second, third = (" ".join(message.text for message in asked) for asked in chat.asked)
    assert "Pay 340 cents to Ann." in first
    assert '"cents"' in first
    assert "`one cent` on `pay-0`: 0 of 1" in second
    assert "no task `nowhere`" in second
    assert "the reply is no JSON" in third


async def test_the_code_is_read_only_if_it_may_be():
    chats = [ScriptedChat(reply()), ScriptedChat(reply())]
    for chat, code in zip(chats, (False, True), strict=True):
        await attacked(ChatAttacker(chat), payments(), rounds=1, reads_code=code)
    assert ["## Source" in chat.asked[0][1].text for chat in chats] == [False, True]


async def test_a_record_is_replayed_with_the_same_findings_and_byte_for_byte(tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    chat = ScriptedChat(reply(play(), play(name="half", cents=170)), "not JSON \ud800 at all", reply(play(task="*", name="all")))
    found = await attacked(ChatAttacker(chat), payments(reads=False), rounds=3, record=first)
    again = await attacked(FileAttacker(read_replies(first)), payments(reads=False), rounds=3, record=second)
    assert found == again
    assert len(found) == 3
    assert first.read_bytes() == second.read_bytes()


async def test_proposals_of_people_are_lines_of_a_file(tmp_path):
    file = tmp_path / "proposals.jsonl"
    file.write_text("".join(json.dumps(play(task=f"pay-{number}", name="one")) + "\n" for number in range(3)))
    (finding,) = await attacked(FileAttacker(read_replies(file)), payments(reads=False))
    assert finding.count == 3
    file.write_text('{"task": "t"}\n')
    with pytest.raises(ConfigError, match=r"proposals\.jsonl:1"):
        read_replies(file)


async def test_an_endpoint_that_fails_at_first_is_an_error_and_later_ends_the_loop_with_what_was_found(tmp_path):
    record = tmp_path / "record.jsonl"
    async with FakeEndpoint([says(reply(play()))], then=status(400)) as endpoint:
        async with open_attack(f"openai:fake@{endpoint.url}", "prompt", 0) as plan:
            (finding,) = await attacked(plan.attacker, payments(reads=False), rounds=3, record=record)
        assert finding.standing is Confidence.CONFIRMED
        assert len(record.read_text().splitlines()) == 2
        assert await attacked(FileAttacker(read_replies(record)), payments(reads=False), rounds=3) == [finding]
        async with open_attack(f"openai:fake@{endpoint.url}", "prompt", 0) as plan:
            with pytest.raises(HarnessError, match="the attacker failed"):
                await attacked(plan.attacker, payments())


@pytest.mark.parametrize(
    ("spec", "reads", "words"),
    [("file:none.jsonl", "prompt", "no file"), ("file:x", "mind", "mind"), ("golden", "code", "chat model")],
)
async def test_options_that_cannot_work_are_refused(spec, reads, words):
    with pytest.raises(ConfigError, match=words):
        async with open_attack(spec, reads, 0):
            pass


async def test_a_larger_budget_is_more_rounds():
    asked = []
    for budget_s in (30.0, 60.0, 120.0):
        chat = ScriptedChat(reply())
        case = await case_of(payments())
        case.attack, case.budget_s = AttackPlan(ChatAttacker(chat)), budget_s
        await PROBE.run(case)
        asked.append(len(chat.asked))
    assert asked == [2, 4, 8]
