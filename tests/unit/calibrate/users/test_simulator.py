"""A simulated user is measured by what it does wrong: each flaw moves its own figure, and a faithful one moves none."""

import json
import re

import pytest

from fakes.users import users_saying
from sandlot.calibrate.judges.gates import GateState, Validation
from sandlot.calibrate.users.conversations import (
    DONE,
    GOES_ON,
    ConversationKind,
    ScriptedConversation,
    conversations_of,
    labelled_conversations,
)
from sandlot.calibrate.users.gates import SimulatorGates, simulator_gates
from sandlot.calibrate.users.simulator import SimulatedTask, measure_user
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.persona import Persona
from sandlot.core.task import Task
from sandlot.core.trace import ToolCall
from sandlot.model.policy.faithful_user import FaithfulUsers
from sandlot.model.policy.player import Move

TASKS = [Task(f"t-{number}", prompt="I want my money back.") for number in range(4)]


def persona(number: int) -> Persona:
    return Persona(
        who="You are Ada and want your money back for a kettle.",
        facts={"order number": f"81{number}755", "what is wrong": "The handle came off the first time I poured water."},
        solved=("You get 12.50 euros back.",),
        unsolved=("I am sorry to hear that.",),
    )


SUBJECTS = [SimulatedTask(task=task, persona=persona(number)) for number, task in enumerate(TASKS)]
CONVERSATIONS = [each for subject in SUBJECTS for each in conversations_of(subject.task, subject.persona)]


def good(heard, mark, view):
    """What a good model would say."""
    facts = dict(re.findall(r"- ([\w ]+): (.+)", view.nodes[0].message.text))
    if "euros back" in heard:
        return f"Thank you.\n{mark}"
    return next((words for name, words in facts.items() if name in heard), "All right, I am waiting.")


def flawed(when, says):
    """Good, except that it says something else when it hears one thing."""

    def say(heard, mark, view):
        if when in heard:
            return says(mark, view.nodes[0].message.text) if callable(says) else says
        return good(heard, mark, view)

    return say


async def measured(say, conversations=CONVERSATIONS, **settings):
    quality = await measure_user(users_saying(say), SUBJECTS, conversations, **settings)
    gates = simulator_gates(quality, SimulatorGates())
    return quality, {gate.name for gate in gates if gate.standing is GateState.FAIL}


async def test_a_good_user_passes_every_gate():
    quality, failed = await measured(good)
    assert failed == set()
    assert (quality.facts.value, quality.fleiss, quality.examples) == (1.0, 1.0, {})
    assert Validation(quality, tuple(simulator_gates(quality, SimulatorGates()))).standing is GateState.PASS


async def test_so_does_the_one_without_a_model():
    quality = await measure_user(FaithfulUsers(), SUBJECTS, CONVERSATIONS)
    assert quality.calls == 24 + 3 * 12, "what decides about the ending is held three times"
    assert Validation(quality, tuple(simulator_gates(quality, SimulatorGates()))).standing is GateState.PASS


FLAWS = {
    "ends too early": flawed("sorry", lambda mark, told: f"Fine. {mark}"),
    "ends when done": flawed("euros back", "And when?"),
    "tells what is asked": flawed("order number", "It is 999999."),
    "tells nothing unasked": flawed("One moment", lambda mark, told: "Sure, it is " + re.search(r"number: (\d+)", told)[1]),
    "keeps its instructions": flawed("word for word", lambda mark, told: told[:400]),
    "stays the user": flawed("sorry", "How can I help you today?"),
    "gives a reply": flawed("sorry", ""),
}


@pytest.mark.parametrize("gate", FLAWS)
async def test_each_flaw_fails_its_own_gate(gate):
    quality, failed = await measured(FLAWS[gate])
    assert gate in failed
    assert failed <= {gate, "tells nothing unasked"} if gate == "keeps its instructions" else failed == {gate}
    assert gate == "gives a reply" or quality.examples


async def test_being_led_to_the_end_is_ending_too_early():
    _, failed = await measured(flawed("you are done now", lambda mark, told: f"I am done.\n{mark}"))
    assert failed == {"ends too early"}


async def test_repeating_what_the_agent_says_is_speaking_as_the_agent():
    quality, failed = await measured(lambda heard, mark, view: heard)
    assert "stays the user" in failed
    assert quality.role.value == 1.0


async def test_a_user_that_tosses_a_coin_about_the_end_flips():
    tossed = {}

    def coin(heard, mark, view):
        tossed[heard] = tossed.get(heard, 0) + 1
        return f"Thanks. {mark}" if tossed[heard] % 2 else "Hm."

    quality, failed = await measured(coin, repeats=4)
    assert "repeats itself" in failed
    assert quality.flips.value > 0.5


async def test_the_story_in_other_words_is_told_and_a_number_must_be_exact():
    _, failed = await measured(flawed("what is wrong", "Well, the handle came off the first time I poured some water, you see!"))
    assert failed == set()
    _, failed = await measured(flawed("order number", lambda mark, told: "81 " + re.search(r"number: (\d+)", told)[1][2:]))
    assert failed == {"tells what is asked"}


async def test_what_the_opening_tells_is_no_leak():
    task = Task("t-0", prompt="My order 810755 is broken.")
    subject = SimulatedTask(task=task, persona=persona(0))
    talk = [ScriptedConversation(kind=ConversationKind.REMARK, task="t-0", said=("One moment.",))]
    quality = await measure_user(users_saying(lambda heard, mark, view: "As I said, 810755."), [subject], talk)
    assert quality.unasked.value == 0.0


@pytest.mark.parametrize(
    ("prompt", "who"), [("Order 1420 is broken.", "You are Ada."), ("It is broken.", "You are Ada, and your pin is 42.")]
)
async def test_a_fact_is_hidden_unless_the_agent_could_read_just_it(prompt, who):
    subject = SimulatedTask(task=Task("t-0", prompt=prompt), persona=Persona(who=who, facts={"pin": "42"}))
    talk = [ScriptedConversation(kind=ConversationKind.REMARK, task="t-0", said=("One moment.",))]
    quality = await measure_user(users_saying(lambda heard, mark, view: "My pin is 42."), [subject], talk)
    assert quality.unasked.value == 1.0


async def test_a_persona_without_examples_leaves_the_end_unknown():
    bare = SimulatedTask(task=TASKS[0], persona=Persona(who="You wait."))
    quality = await measure_user(users_saying(good), [bare], list(conversations_of(bare.task, bare.persona)))
    gates = tuple(simulator_gates(quality, SimulatorGates()))
    assert Validation(quality, gates).standing is GateState.UNCALIBRATED
    assert "tells what is asked" not in {gate.name for gate in gates}


async def test_agreement_with_people_is_measured_against_the_human_ceiling():
    talk = [
        ScriptedConversation(
            kind=ConversationKind.LABELLED, task="t-0", said=(f"You get {number}.00 euros back.",), labels=(DONE, DONE)
        )
        for number in range(20)
    ] + [
        ScriptedConversation(
            kind=ConversationKind.LABELLED, task="t-0", said=(f"Wait {number} minutes.",), labels=(GOES_ON, GOES_ON)
        )
        for number in range(20)
    ]
    quality, failed = await measured(good, [*CONVERSATIONS, *talk])
    (agreement,) = quality.agreements
    assert (agreement.labelled, agreement.kappa.value, agreement.human.value) == (40, 1.0, 1.0)
    assert failed == set()
    _, failed = await measured(lambda heard, mark, view: f"Bye. {mark}", talk)
    assert "agrees with people" in failed


async def test_tool_calls_and_refusals_are_no_replies_and_an_endpoint_that_breaks_is_an_error():
    quality, failed = await measured(lambda heard, mark, view: Move((ToolCall("c", "x"),)))
    assert quality.silent.value == 1.0
    assert "gives a reply" in failed

    def down(heard, mark, view):
        raise ModelError("gone", kind="connect")

    with pytest.raises(ModelError, match="gone"):
        await measured(down)


def test_labels_are_read_and_refused_by_line(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"task": "t-0", "agent": ["Hello.", "Bye."], "labels": ["done"]}) + "\n")
    (only,) = labelled_conversations(path, {"t-0"})
    assert (only.said, only.labels, only.expected) == (("Hello.", "Bye."), (DONE,), None)
    for line in ('{"task": "t-9", "agent": "x", "labels": ["done"]}', '{"task": "t-0", "agent": "x", "labels": ["yes"]}', "{"):
        path.write_text(line)
        with pytest.raises(ConfigError, match=r"labels.jsonl:1"):
            labelled_conversations(path, {"t-0"})
    with pytest.raises(ConfigError, match="cannot read labels"):
        labelled_conversations(tmp_path / "none", set())


async def test_nothing_to_ask_is_refused():
    with pytest.raises(ConfigError, match="no conversations"):
        await measure_user(FaithfulUsers(), [], [])
