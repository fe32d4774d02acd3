"""The gallery's flawed worlds: stale, leaking, shared, silent or dependent on the machine where the clean twin is not."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from sandlot import Agent, Environment, Scored, Task, Trace
from sandlot.env.taskset import tasks_of
from worlds.gallery import PLACE, doing, fresh, played, values

TWINS = [("broken", True), ("clean", False)]
"""And whether the defect shows."""


@pytest.fixture(autouse=True)
def folder_for_scratch_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


async def shown(env: Environment, *calls, task: Task | None = None) -> str:
    """What the last of these calls shows, in a world of its own."""
    seen: list[str] = []
    await played(env, doing(*calls, seen=seen), tasks=[task or tasks_of(env)[0]])
    return seen[0]


# -- stale -------------------------------------------------------------------------------------------------------------


def customer_card(task: Task):
    who = task.key["who"]
    return ("get_customer", {"customer": who}), ("set_phone", {"customer": who, "phone": "+1 555"})


def page_of_a_word(task: Task):
    return ("search", {"word": "zebra"}), ("edit_page", {"page": task.key["page"], "text": "Zebra crossing."})


def shop_level(task: Task):
    item = task.key["item"]
    return ("levels", {"item": item}), ("transfer", {"item": item, "units": 1, "to": "shop"})


STALE = {"stale-cache-lookup": customer_card, "stale-search-index": page_of_a_word, "stale-refresh-interval": shop_level}


@pytest.mark.parametrize("name", STALE)
@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_read_before_a_write_spoils_the_read_after_it(name, twin, bites):
    env = fresh(name, twin)
    read, write = STALE[name](tasks_of(env)[0])
    assert (await shown(env, read, write, read) != await shown(env, write, read)) is bites


# -- resets ------------------------------------------------------------------------------------------------------------

LEAKS = {
    "shared-catalogue": (("set_price", {"item": "lamp", "cents": 1}), ("show_item", {"item": "lamp"})),
    "default-argument-history": (("search", {"words": "canary"}), ("search", {"words": "moon"})),
    "notes-on-the-host": (("write_entry", {"text": "canary"}), ("read_book", {})),
    "running-number": (("open_case", {"name": "Abel", "letter": "P"}), ("open_case", {"name": "Abel", "letter": "P"})),
    "setup-without-a-copy": (
        lambda task: ("take_back", {"name": task.key["who"], "tool": task.key["tool"]}),
        lambda task: ("borrowed", {"name": task.key["who"]}),
    ),
    "unseeded-opening": (("stock", {}), ("stock", {})),
}


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_world_shows_what_happened_in_another(name, twin, bites):
    write, read = LEAKS[name]
    env = fresh(name, twin)
    task = tasks_of(env)[0]  # the same one for all: a group's rollouts share it
    first = await shown(env, read, task=task)
    await shown(env, write, task=task)
    assert (await shown(env, read, task=task) != first) is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_call_is_answered_with_what_another_task_was_told(twin, bites):
    env = fresh("kept-by-its-words", twin)
    first, second, *_ = tasks_of(env)
    asked = ("stock_of", {"part": second.key["part"]})
    await shown(env, asked, task=first)
    assert (await shown(env, asked, task=second) != str(second.key["count"])) is bites


# -- neighbours --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one-current-order", "one-scratch-file"])
@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_neighbours_get_in_each_others_way(name, twin, bites):
    assert set(values(await played(fresh(name, twin)))) == {1.0}
    beside = [trace.outcome for trace in await played(fresh(name, twin), at_once=8)]
    assert (not all(isinstance(outcome, Scored) and outcome.score.passed for outcome in beside)) is bites


# -- the machine -------------------------------------------------------------------------------------------------------


def texts(traces: list[Trace]) -> list[str]:
    """Everything that was said and shown, in the order of the tasks."""
    ordered = sorted(traces, key=lambda trace: trace.task)
    return [node.message.text + str(node.message.results) for trace in ordered for node in trace.nodes]


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_another_day_is_another_world(twin, bites, monkeypatch):
    class Tomorrow(date):
        @classmethod
        def today(cls):
            return cls(2031, 2, 3)

    env = fresh("todays-date", twin)
    before = texts(await played(env))
    monkeypatch.setitem(env.marked.tasks.__globals__, "date", Tomorrow)
    assert (texts(await played(env)) != before) is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_another_time_zone_is_another_world(twin, bites, monkeypatch):
    try:
        seen = []
        for zone in ("UTC", "Asia/Tokyo"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            seen.append(texts(await played(fresh("machines-time-zone", twin), doing(("read_log", {})))))
        assert (seen[0] != seen[1]) is bites
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_another_language_is_another_world(twin, bites, monkeypatch):
    seen = []
    for language in ("C.UTF-8", "de_DE.UTF-8"):
        monkeypatch.setenv("LC_ALL", language)
        seen.append(texts(await played(fresh("machines-language", twin))))
    assert (seen[0] != seen[1]) is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
def test_another_hash_seed_is_another_set_of_tasks(twin, bites):
    code = "import sys, sandlot; from sandlot.env.taskset import tasks_of; print(tasks_of(sandlot.load(sys.argv[1])))"
    path = str(PLACE / "order-of-a-set" / f"{twin}.py")
    made = {
        subprocess.run(
            [sys.executable, "-c", code, path], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert (len(made) == 2) is bites


class Rates(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(dict.fromkeys(("CHF", "DKK", "NOK", "PLN", "SEK"), 1)).encode())

    def log_message(self, *args) -> None:
        pass


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_service_that_answers_makes_another_world(twin, bites, monkeypatch):
    env = fresh("live-rates", twin)
    without = texts(await played(env))
    with HTTPServer(("127.0.0.1", 0), Rates) as server:
        monkeypatch.setitem(env.marked.tasks.__globals__, "SERVICE", f"http://127.0.0.1:{server.server_port}/rates")
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        beside = texts(await played(env))
        server.shutdown()
        thread.join()
    assert (beside != without) is bites


# -- what tools say ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_late_lookup_looks_like_an_empty_one(twin, bites):
    env = fresh("empty-when-late", twin)
    task = tasks_of(env)[0]
    longest = max(task.data["orders"], key=lambda name: len(task.data["orders"][name]))
    assert (await shown(env, ("find_orders", {"customer": longest})) == "No orders found.") is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_a_note_that_was_not_kept_is_called_saved(twin, bites):
    env = fresh("saved-without-saving", twin)
    assert (await shown(env, ("keep_note", {"title": "long", "text": "x" * 200})) == "Saved.") is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
async def test_what_is_asked_for_can_be_read_nowhere(twin, bites):
    async def read_on(agent: Agent, task: Task) -> None:
        text = await agent.call("read_minutes")
        for page in range(2, 5):
            if "ask for the next one" in text:
                text = await agent.call("read_minutes", page=page)
        await agent.say("".join(re.findall(r"gave (\d+) euros", text)))

    assert set(values(await played(fresh("cut-without-a-mark", twin), read_on))) == ({0.0} if bites else {1.0})


@pytest.mark.parametrize(("twin", "bites"), TWINS)
def test_the_prompt_names_a_tool_that_is_not_there(twin, bites):
    env = fresh("prompt-names-another-tool", twin)
    named = set(re.findall(r"`(\w+_\w+)`", env.system))
    assert (not named <= {tool.spec.name for tool in env.tools}) is bites


@pytest.mark.parametrize(("twin", "bites"), TWINS)
def test_the_tools_are_not_those_that_are_served(twin, bites):
    served = {tool["name"]: tool["inputSchema"] for tool in json.loads((PLACE / "served-otherwise" / "served.json").read_text())}
    assert ({tool.spec.name: tool.spec.parameters for tool in fresh("served-otherwise", twin).tools} != served) is bites
