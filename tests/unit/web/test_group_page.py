"""The page of a group and the comparison of two rollouts. Over a real server; all content is hostile."""

from pathlib import Path

import aiohttp
import numpy as np
import pytest
from yarl import URL

from builders.view_pages import ATTACK, make_run, make_trace, sampled
from sandlot.core.trace import Node, ToolCall, Trace, text_message
from sandlot.core.types import Role
from sandlot.train.algorithms.advantages import standardised
from sandlot.web.app import serve_view
from sandlot.web.pages.files import diff_lines
from sandlot.web.pages.parting import parting_tree, what_differs
from sandlot.web.site import Site, link

NAME = "desk <b>"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("group"))


async def get(run: Path, page: str, **query: str | int) -> tuple[int, str]:
    async with (
        serve_view(Site(run.parent)) as address,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        url = address(link(NAME, page, **{"task": "made", **query}))
        async with session.get(URL(url, encoded=True)) as answer:
            return answer.status, await answer.text()


async def test_a_group_has_the_advantages_of_training_and_names_the_best_and_the_worst(run):
    status, text = await get(run, "group")
    assert status == 200
    for advantage in standardised(np.array([1.0, 1.0, 0.5, 0.0], np.float32)):
        assert f"{advantage:+.3f}" in text
    assert "What rollout 0 did that rollout 3 did not" in text
    assert '<select name="one"><option selected>0</option>' in text
    assert "echo 299 of 3" not in text, "a long list of calls is cut"
    assert "240 more" in text


async def test_two_rollouts_are_compared_message_by_message(run):
    status, text = await get(run, "diff", one=1, other=2)
    assert status == 200
    assert "3 equal messages" in text
    assert '<span class="del">-bash({&#34;command&#34;:&#34;echo 1 of 1&#34;})</span>' in text
    assert '<span class="add">+bash({&#34;command&#34;:&#34;echo 1 of 2&#34;})</span>' in text
    assert "#check" not in text
    assert text.count("<script") == 1


@pytest.mark.parametrize("query", [{"one": 1, "other": 1}, {"one": 1, "other": 99}, {"one": 1, "other": 2, "task": ATTACK}, {}])
async def test_rollouts_that_cannot_be_compared_are_refused(run, query):
    status, text = await get(run, "diff", **query)
    assert status == 404
    assert "<img" not in text


async def test_hostile_text_stays_text(run):
    for page, query in (("group", {}), ("diff", {"one": 1, "other": 3})):
        _, text = await get(run, page, **query)
        assert "<script>" not in text
        assert "<img" not in text


def conversation(rollout: int, *commands: str) -> Trace:
    trace = Trace(run="r", task="t", rollout=rollout, seed=0)
    leaf = trace.append(Node(message=text_message(Role.USER, "go")))
    for number, command in enumerate(commands):
        call = ToolCall(id=f"{rollout}-{number}", name="bash", arguments={"command": command})
        leaf = trace.append(sampled(0 if command == "ls" else len(command), leaf, "", call, at=0.0))
        leaf = trace.append(Node(message=text_message(Role.TOOL, "ok"), parent=leaf))
    return trace


def test_rollouts_part_where_their_messages_differ_whatever_their_calls_are_named():
    tree = parting_tree([conversation(0, "ls", "cat a"), conversation(1, "ls", "cat a"), conversation(2, "ls", "rm a -r")])
    assert tree is not None
    assert (tree["members"], tree["end"]) == ([0, 1, 2], 3)
    assert tree["token"] == {"message": 3, "token": 0}
    assert [branch["members"] for branch in tree["branches"]] == [[0, 1], [2]]
    assert tree["branches"][0]["branches"] == [], "they are the same to the end"


def test_a_rollout_that_ends_earlier_parts_there():
    tree = parting_tree([conversation(0, "ls"), conversation(1, "ls", "cat a")])
    assert tree is not None
    assert [branch["says"] for branch in tree["branches"]] == ["ends here", "assistant: bash(cat a)"]
    assert parting_tree([conversation(0, "ls")]) is None


def test_many_partings_are_cut():
    traces = [conversation(number, *["same"] * number, "other") for number in range(60)]
    assert "'deeper': True" in repr(parting_tree(traces))


def test_what_one_did_that_another_did_not_counts_repeated_calls():
    found = what_differs(conversation(0, "ls", "ls", "cat a"), conversation(1, "ls", "rm a"))
    assert [call["arguments"] for call in found["calls"]] == ['{"command":"ls"}', '{"command":"cat a"}']
    assert [call["arguments"] for call in found["missing"]] == ['{"command":"rm a"}']
    assert what_differs(make_trace(1, 2, score=1.0), make_trace(2, 2, score=0.5))["checks"] == []


def test_a_text_parted_by_other_characters_than_newlines_is_one_line_of_a_diff():
    # `splitlines` made thousands of lines of it, and comparing them took seconds for 17 kB.
    one, other = ("\r".join(f"{word}{number}" for number in range(20_000)) for word in ("a", "b"))
    assert [kind for kind, _ in diff_lines(one, other)] == ["at", "del", "add"]
