"""Measures a simulated user: whether it plays its persona, and plays it consistently.

- *Repeat*: the same conversation ends the same way again.
- *Ending*: it ends the conversation when the matter is solved, and not before, even if asked to.
- *Facts*: it states a fact correctly when asked.
- *Leaks*: it reveals neither facts without being asked nor its own instructions.
- *Role*: it speaks as the user, not as the agent.
- *Labels*: it agrees with people on endings that no rule decides.

An empty or invalid reply is counted as such and not retried.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sandlot.calibrate.judges.items import JudgedItem
from sandlot.calibrate.judges.labels import Agreement, JudgedLabel, agreements
from sandlot.calibrate.users.conversations import DONE, GOES_ON, ConversationKind, ScriptedConversation
from sandlot.core.concurrency.limited import gather_limited
from sandlot.core.errors import ConfigError, ModelError, boundary
from sandlot.core.persona import NO_REPLY, Persona
from sandlot.core.ports.session import Users
from sandlot.core.stats.agreement import fleiss_kappa, flip_rate
from sandlot.core.stats.intervals import Interval, wilson
from sandlot.core.task import Task
from sandlot.core.types import End, derive_seed

_RUN = 5
"""Consecutive words of a fact that reveal it; a shorter fact counts only as a whole."""
_VERBATIM = 8
"""Consecutive words of its instructions that count as repeating them."""
_TOLD = 0.7
"""Share of a longer fact's words that must be in the reply; numbers must all be."""

_AS_THE_AGENT = re.compile(
    r"\bhow (?:can|may) i (?:help|assist)\b"
    r"|\bas an ai\b|\b(?:ai|virtual) assistant\b|\blanguage model\b"
    r"|\b(?:happy|here|glad) to (?:help|assist)\b"
    r"|\bi can (?:help|assist) you\b|\banything else i can\b"
    r"|\bthank you for (?:contacting|reaching out|your patience|providing)\b"
    r"|\bplease provide\b|\bcould you (?:please )?provide\b"
    r"|^\s*(?:assistant|agent)\s*:"
)
"""Phrases of agents, not of users."""


class SimulatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task with its user."""

    task: Task
    persona: Persona


class SimulatorQuality(msgspec.Struct, frozen=True, kw_only=True):
    """The measured quality of a simulated user."""

    user: str
    tasks: int
    calls: int
    """Conversations held."""
    silent: Interval
    """Share of conversations without a reply: nothing, a refusal or a tool call."""
    flips: Interval
    """Probability that the same conversation ends differently when repeated."""
    fleiss: float | None
    """Agreement with itself on endings, beyond chance (Fleiss' kappa); None if all endings are the same."""
    premature: Interval
    """Share of unsolved conversations that it ended."""
    missing: Interval
    """Share of solved conversations that it did not end."""
    unasked: Interval
    """Share of replies that revealed a fact without being asked."""
    verbatim: Interval
    """Share of replies that repeated its instructions."""
    facts: Interval
    """Share of facts stated correctly when asked."""
    role: Interval
    """Share of replies in which it spoke as the agent."""
    labelled: int
    agreements: tuple[Agreement, ...]
    """Agreement with people on endings; empty without labels."""
    examples: dict[str, str]
    """For every figure with a bad reply, one such reply."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A finished conversation."""

    conversation: ScriptedConversation
    reply: str | None
    """The user's last reply; None if it gave none."""
    end: str | None
    """`done` or `goes on`; None if it gave no reply."""


@dataclass(slots=True)
class _Figures:
    """Computes shares, and keeps an example of each."""

    examples: dict[str, str] = field(default_factory=dict[str, str])

    def share(self, name: str, held: Sequence[_Held], bad: Callable[[_Held], bool], *, good: bool = False) -> Interval:
        """Share of conversations for which `bad` is true, or with `good` false; the first bad one is kept as an example."""
        found = [each for each in held if bad(each)]
        if found:
            first = found[0]
            self.examples[name] = f"{first.conversation.task}: {first.conversation.said[-1]!r} -> {(first.reply or '')[:300]!r}"
        return wilson(len(held) - len(found) if good else len(found), len(held))


async def measure_user(
    users: Users,
    subjects: Sequence[SimulatedTask],
    conversations: Sequence[ScriptedConversation],
    *,
    repeats: int = 3,
    at_once: int = 8,
) -> SimulatorQuality:
    """Hold every conversation; those that decide about the ending `repeats` times."""
    if not subjects or not conversations:
        raise ConfigError("no conversations to hold: the environment has no task with a persona")
    if repeats < 2 or at_once < 1:
        raise ConfigError(f"repeats is {repeats}, at_once {at_once}; give 2 and 1 or more")
    by_task = {subject.task.id: subject for subject in subjects}
    deciding = (ConversationKind.SOLVED, ConversationKind.UNSOLVED, ConversationKind.LEADING, ConversationKind.LABELLED)
    asked = [(each, number) for each in conversations for number in range(repeats if each.kind in deciding else 1)]
    with boundary(ModelError, f"measuring `{users.name}`"):  # a task group wraps what its endpoint raises
        held = await gather_limited(
            [partial(_hold_conversation, users, by_task[each.task], each, number) for each, number in asked], at_once
        )
    again: dict[int, list[str]] = {}
    for each in held:
        if each.conversation.kind in deciding and each.end is not None:
            again.setdefault(id(each.conversation), []).append(each.end)
    figures = _Figures()
    replied = [each for each in held if each.reply is not None]
    questions = [each for each in replied if each.conversation.kind is ConversationKind.QUESTION]
    quiet = [each for each in replied if each.conversation.kind not in {ConversationKind.QUESTION, ConversationKind.LABELLED}]
    ends = [each for each in replied if each.conversation.expected is not None]
    labelled = _labelled(held)
    return SimulatorQuality(
        user=users.name,
        tasks=len({each.task for each in conversations}),
        calls=len(held),
        silent=wilson(len(held) - len(replied), len(held)),
        flips=flip_rate(list(again.values())),
        fleiss=fleiss_kappa(list(again.values())),
        premature=figures.share("premature", [each for each in ends if each.conversation.expected == GOES_ON], _ended),
        missing=figures.share("missing", [each for each in ends if each.conversation.expected == DONE], lambda e: not _ended(e)),
        unasked=figures.share("unasked", quiet, lambda each: _leaks(each, by_task[each.conversation.task])),
        verbatim=figures.share("verbatim", replied, lambda each: _recites(each, by_task[each.conversation.task].persona)),
        facts=figures.share(
            "facts", questions, lambda each: not _states_fact(each, by_task[each.conversation.task].persona), good=True
        ),
        role=figures.share("role", replied, _speaks_as_agent),
        labelled=len(labelled),
        agreements=agreements(labelled),
        examples=figures.examples,
    )


async def _hold_conversation(users: Users, subject: SimulatedTask, conversation: ScriptedConversation, number: int) -> _Held:
    """Hold one conversation with a new user."""
    seed = derive_seed("simulator", conversation.task, *conversation.said, number)
    reply, end = "", GOES_ON
    async with users.user(subject.persona, subject.task.public(), seed, number) as user:
        await user.open()
        for text in conversation.said:
            turn = await user.reply(text)
            if any(event.kind in NO_REPLY for event in turn.events):
                return _Held(conversation, None, None)
            reply, end = turn.text, DONE if turn.end is End.DONE else GOES_ON
            if turn.end is not None:
                break
    return _Held(conversation, reply, end)


def _labelled(held: Sequence[_Held]) -> list[JudgedLabel]:
    """Every labelled conversation with its first ending."""
    first: dict[int, _Held] = {}
    for each in held:
        if each.conversation.labels:
            first.setdefault(id(each.conversation), each)
    choices = (GOES_ON, DONE)
    return [
        JudgedLabel(JudgedItem(check="ending", question="", choices=choices, view={}, labels=each.conversation.labels), each.end)
        for each in first.values()
    ]


def _ended(held: _Held) -> bool:
    return held.end == DONE


def _leaks(held: _Held, subject: SimulatedTask) -> bool:
    """True if the reply reveals a fact that neither the task's prompt nor the agent has stated."""
    public = f" {_normalised(' '.join([subject.task.prompt, *held.conversation.said]))} "
    hidden = [words for words in subject.persona.facts.values() if f" {_normalised(words)} " not in public]
    return any(_in_a_row(words, held.reply or "", _RUN) for words in hidden)


def _recites(held: _Held, persona: Persona) -> bool:
    told = persona.instructions("")
    for words in persona.facts.values():  # a fact that was asked for is no recital
        told = told.replace(words, "|")
    heard = f" {_normalised(' '.join(held.conversation.said))} "
    reply = f" {_normalised(held.reply or '')} "
    runs = (run for piece in told.split("|") for run in _runs(_normalised(piece).split(), _VERBATIM))
    return any(f" {run} " in reply and f" {run} " not in heard for run in runs)


def _states_fact(held: _Held, persona: Persona) -> bool:
    words, reply = _normalised(persona.facts[held.conversation.fact]).split(), _normalised(held.reply or "").split()
    numbers = [word for word in words if any(letter.isdigit() for letter in word)]
    said = set(reply)
    if len(words) <= _RUN or not set(numbers) <= said:
        return f" {' '.join(words)} " in f" {' '.join(reply)} "
    return sum(word in said for word in words) >= _TOLD * len(words)


def _speaks_as_agent(held: _Held) -> bool:
    reply = (held.reply or "").casefold()
    return _AS_THE_AGENT.search(reply) is not None or (
        bool(reply) and _normalised(reply) == _normalised(held.conversation.said[-1])
    )


def _in_a_row(words: str, text: str, least: int) -> bool:
    """True if `text` has at least `least` of the words in a row, or all of them if they are fewer."""
    pieces, heard = _normalised(words).split(), f" {_normalised(text)} "
    return any(f" {run} " in heard for run in _runs(pieces, min(least, len(pieces))))


def _runs(words: Sequence[str], length: int) -> list[str]:
    return [" ".join(words[at : at + length]) for at in range(len(words) - length + 1)] if length else []


def _normalised(text: str) -> str:
    """Words and numbers only, separated by single blanks."""
    return " ".join(re.findall(r"\w+", text.casefold()))
