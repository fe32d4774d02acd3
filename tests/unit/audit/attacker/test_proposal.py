"""Replies of attackers are hostile input: read exactly, bounded, each proposal by itself."""

import json

import pytest

from sandlot.audit.attacker.proposal import MOST_PROPOSALS, MOST_REPLY_CHARS, Claim, read_reply
from sandlot.audit.subject import Call, Say

PLAY = {
    "task": "t",
    "name": "n",
    "turns": [[{"do": "call", "tool": "pay", "arguments": {"cents": 5}}], [{"do": "say", "text": "done"}]],
}


def reply(*proposals) -> str:
    return json.dumps({"proposals": list(proposals)})


def test_a_play_of_calls_and_a_message():
    (proposal,) = read_reply(reply(PLAY)).proposals
    assert proposal.claim is Claim.ATTACK
    assert proposal.script.turns == ((Call("pay", {"cents": 5}),), (Say("done"),))


def test_one_fence_around_it_is_read():
    assert len(read_reply(f"Here it is.\n```json\n{reply(PLAY)}\n```\n").proposals) == 1


def test_what_is_wrong_is_refused_with_the_reason_and_the_others_count():
    read = read_reply(reply(PLAY, {**PLAY, "score": 1.0}, {"task": "t"}, 7))
    assert len(read.proposals) == 1
    assert len(read.refused) == 3
    assert "unknown field" in read.refused[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I will not",
        "[]",
        "{}",
        '{"proposals": {}}',
        "[" * 100_000,
        '{"proposals": [' + "1," * 50,
        "\ud800",
        "x" * (MOST_REPLY_CHARS + 1),
    ],
)
def test_no_reply_breaks_the_reader(text):
    read = read_reply(text)
    assert read.proposals == ()
    assert read.refused


def nested(depth: int) -> dict:
    thing: dict = {}
    for _ in range(depth):
        thing = {"a": thing}
    return thing


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [[]],
        [[{"do": "say", "text": "a"}, {"do": "say", "text": "b"}]],
        [[{"do": "say", "text": "a"}]] * 61,
        [[{"do": "call", "tool": "t"}] * 21],
        [[{"do": "say", "text": "a" * 20_001}]],
        [[{"do": "call", "tool": "t", "arguments": {"a": "x" * 20_001}}]],
        [[{"do": "call", "tool": "t", "arguments": nested(60)}]],
        [[{"do": "run", "text": "a"}]],
        [[{"do": "call", "tool": "t", "arguments": [1]}]],
    ],
)
def test_plays_of_another_form_or_size_are_refused(turns):
    assert read_reply(reply({**PLAY, "turns": turns})).proposals == ()


def test_more_proposals_than_allowed_are_dropped():
    read = read_reply(reply(*[PLAY] * (MOST_PROPOSALS + 3)))
    assert len(read.proposals) == MOST_PROPOSALS
    assert "3 proposals" in read.refused[-1]
