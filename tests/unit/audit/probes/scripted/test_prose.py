"""Messages that deny what golden says must lose; only graded messages count."""

import pytest

from drive.in_process import case_of
from sandlot import Environment, Task
from sandlot.audit.finding import Confidence, Finding, Severity
from sandlot.audit.probes.scripted.prose import WRONG, _look_at_prose, changed_prose, is_prose
from sandlot.audit.reason import ReasonKind
from sandlot.audit.subject import Call, Say, Script


def reminders(met, *, said: bool = False, note: str = "The customer was asked to pay, and a copy was filed."):
    """Golden mails what is owed (or says it), and notes it; `met` grades the mail and the note."""

    def make() -> Environment:
        env = Environment("reminders")

        @env.tasks
        def tasks(rng):
            for number in range(3):
                owed = 656 + number
                yield Task(f"owed-{number}", prompt=f"Remind Ann that {owed} euros are open.", key={"owed": owed})

        @env.tool
        async def mail(world, to: str, body: str, amount: int = 0) -> str:
            """Send a mail."""
            world.state["mail"] = {"to": to, "body": body, "amount": amount}
            return "sent"

        @env.tool
        async def file_note(world, text: str) -> str:
            """File a note."""
            world.state["note"] = text
            return "filed"

        @env.check(points=1)
        def reminded(evidence, task) -> bool:
            return met(evidence.answer if said else evidence.state.get("mail", {}), task.key["owed"])

        @env.solution
        async def solve(agent, task) -> None:
            body = f"Dear Ann, the amount of {task.key['owed']} euros is still open. Please pay it by Friday."
            await agent.call("file_note", text=note)
            if said:
                await agent.say(body)
            else:
                await agent.call("mail", to="ann", body=body, amount=task.key["owed"])
                await agent.say("done")

        return env

    return make


async def found(make) -> dict[str, Finding]:
    return {f"{each.code} {each.title.partition(', on')[0]}": each for each in await _look_at_prose(await case_of(make))}


async def test_a_check_for_words_is_met_by_the_opposite():
    findings = await found(reminders(lambda mail, owed: str(owed) in mail.get("body", "")))
    wrong = {title: each for title, each in findings.items() if each.code == "D02.prose"}
    assert len(wrong) == len(WRONG)
    sure = {each.reason.kind for each in wrong.values() if each.standing is Confidence.CONFIRMED}
    assert sure == {ReasonKind.CONTRADICTS, ReasonKind.LEAVES_OUT}
    assert {each.severity for each in wrong.values() if each.reason} == {Severity.HIGH}
    leads = {title for title, each in wrong.items() if each.standing is Confidence.LEAD}
    assert len(leads) == 2, "insults and promises are wrong only if the task says so"


async def test_so_is_one_for_words_of_the_final_answer():
    findings = await found(reminders(lambda answer, owed: str(owed) in answer, said=True))
    assert any(each.standing is Confidence.CONFIRMED for each in findings.values())


async def test_facts_that_are_asked_for_in_a_field_are_not_prose():
    assert await found(reminders(lambda mail, owed: mail.get("amount") == owed)) == {}


async def test_a_check_that_reads_the_sentence_pays_for_no_denial_and_what_dress_costs_is_a_lead():
    def right(mail, owed):
        return mail.get("body", "") == f"Dear Ann, the amount of {owed} euros is still open. Please pay it by Friday."

    findings = await found(reminders(right))
    assert {each.code for each in findings.values()} == {"D15.prose"}
    assert {each.standing for each in findings.values()} == {Confidence.LEAD}


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("Dear Ann, the amount is still open and must be paid.", True),
        ("Ann Smith", False),
        ("42", False),
        ('{"to": "ann", "text": "one two three four five six"}', False),
        ("for row in rows: total += row['amount'] * 3  # (sum)", False),
        ("2026-01-01,656.82,EUR,ann,bob,carl,dora,emil", False),
        ("", False),
        (None, False),
    ],
)
def test_what_is_prose(text, prose):
    assert is_prose(text) is prose


def test_only_messages_are_changed_and_no_commands():
    text = "Dear Ann, the amount is still open."
    script = Script(
        name="golden", turns=((Call("bash", {"command": text}), Call("mail", {"body": text, "n": 1})), (Say("done"),))
    )
    changed = changed_prose(script, str.upper, frozenset({"bash"}))
    assert changed is not None
    assert changed.turns == ((Call("bash", {"command": text}), Call("mail", {"body": text.upper(), "n": 1})), (Say("done"),))
    assert changed_prose(Script(name="golden", turns=((Say("done"),),)), str.upper, frozenset()) is None
