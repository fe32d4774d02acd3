"""The review desk over a real server: labels, notes and pairs are stored, attacks change nothing, two readers lose nothing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from yarl import URL

import sandlot
from drive.visitor import visit
from sandlot.analysis.preferences import read_preferences
from sandlot.analysis.triage.labels import read_labels
from sandlot.web.site import Site, link

ATTACK = "</textarea><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
HOSTILE = f"""
from sandlot import Environment, Task

env = Environment("hostile", system={ATTACK!r})

@env.tasks
def tasks(rng):
    for number in range(4):
        yield Task(id=f"a-{{number}}", prompt={ATTACK!r})

@env.check(points=1)
def said(evidence, task):
    return "2" in task.id, {ATTACK!r}

@env.solution
async def solve(agent, task):
    await agent.say({ATTACK!r})
"""
OWN = 'name = "<i>team"\nversion = 1\n[[labels]]\nname = "rude"\nwhat = "<u>tone"\ncounts_as = "hack_suspected"\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("desk")
    (place / "hostile.py").write_text(HOSTILE)
    return sandlot.run(place / "hostile.py", "scripted:golden", group=2, runs=place / "runs").path


@pytest.fixture
def run(made, tmp_path) -> Path:
    """A copy of the run without labels, in a folder of its own."""
    folder = tmp_path / "runs"
    subprocess.run(["cp", "-r", made, folder.mkdir() or folder / "desk"], check=True)
    (folder / "labels.toml").write_text(OWN)
    return folder / "desk"


def label(rollout=0, label="model_wrong", task="a-0", **more) -> dict:
    return {"task": task, "rollout": rollout, "label": label, **more}


async def test_a_label_is_stored_as_triage_stores_it_and_the_answer_names_the_next_rollout(run):
    async with visit(Site(run.parent, reader="ann")) as ann:
        status, said = await ann.post(link("desk", "label"), label(note="read in full"))
        assert status == 200, said
        assert (said["label"], said["done"], said["total"]) == ("model_wrong", 1, 8)
        (kept,) = read_labels(run).given
        assert (kept.task, kept.rollout, kept.by, kept.note, kept.own) == ("a-0", 0, "ann", "read in full", None)
        status, text = await ann.read(said["next"])
        assert status == 200
        assert '<span id="done">1</span>' in text
        await ann.post(link("desk", "label"), label(label="rude"))
    assert [each.counts_as for each in read_labels(run).counting] == ["hack_suspected"]
    found = sandlot.triage(run).review
    assert (found.labels, found.people) == ({"rude": 1}, 1)


async def test_own_labels_have_keys_and_every_page_shows_hostile_text_as_text(run):
    async with visit(Site(run.parent, reader="ann <b>")) as ann:
        await ann.post(link("desk", "label"), label(note=ATTACK))
        await ann.post(link("desk", "note"), {"task": "a-0", "rollout": 0, "message": 1, "note": ATTACK})
        pages = [link("desk", "review", at="a-0/0"), link("desk", "readers"), link("desk", "pairs")]
        for page in [*pages, link("desk", "review", filter=1, task=ATTACK, label=ATTACK, end=ATTACK)]:
            status, text = await ann.read(page)
            assert status == 200, text
            assert text.count("<script") == 1, "ours alone"
            assert not re.search(r"<(img|i|u)\b", text)
        _, text = await ann.read(pages[0])
        assert 'data-label="rude" data-key="5"' in text
        assert text.count("&lt;script&gt;") >= 4, "prompt, evidence, note and annotation"


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (label(label="<b>"), "no label `<b>`"),
        (label(label="../../etc/passwd"), "no label"),
        (label(label=["ok"]), "`label` must be a text"),
        (label(rollout=99), "has no trace"),
        (label(rollout="0"), "a whole number"),
        (label(rollout=True), "a whole number"),
        (label(task="../desk/a-0"), "has no trace"),
        (label(note="x" * 4001), "4,001 characters"),
        ({}, "name the rollout"),
    ],
)
async def test_what_is_no_label_is_refused_and_stores_nothing(run, told, problem):
    async with visit(Site(run.parent, reader="ann")) as ann:
        status, said = await ann.post(link("desk", "label"), told)
        assert (status, problem in said["problem"]) == (400, True), said
    assert not (run / "labels.jsonl").exists()


async def test_a_note_of_ten_megabytes_and_what_is_no_json_object_are_refused(run):
    async with visit(Site(run.parent, reader="ann")) as ann:
        huge = json.dumps(label(note="x" * 10_000_000)).encode()
        for body in (huge, b"[1]", b"{", b'{"task": "\xff"}', b'{"task": "\\ud800", "rollout": 0, "label": "ok"}'):
            status, said = await ann.post(link("desk", "label"), None, body=body)
            assert (status, bool(said["problem"])) == (400, True)
        for message in (-1, 3, 1.5, "1", None):
            note = {"task": "a-0", "rollout": 0, "message": message, "note": "x"}
            assert (await ann.post(link("desk", "note"), note))[0] == 400
    assert not (run / "labels.jsonl").exists()


async def test_without_a_reader_nothing_can_be_posted_and_the_page_says_how(run):
    async with visit(Site(run.parent, control=True)) as guest:
        for page in ("label", "note", "prefer"):
            status, said = await guest.post(link("desk", page), label())
            assert (status, "`--reader NAME`" in said["problem"]) == (400, True), page
        for page in ("review", "pairs"):
            _, text = await guest.read(link("desk", page))
            assert "--reader NAME" in text
            assert "<textarea" not in text
    assert not (run / "labels.jsonl").exists()
    assert not (run / "preferences.jsonl").exists()


async def test_a_name_with_a_path_in_it_is_only_a_name(run):
    before = set(run.parent.parent.rglob("*"))
    async with visit(Site(run.parent, reader="../../ann\n/etc/passwd")) as ann:
        await ann.post(link("desk", "label"), label())
    assert [each.by for each in read_labels(run).given] == ["../../ann /etc/passwd"]
    assert set(run.parent.parent.rglob("*")) - before == {run / "labels.jsonl"}


async def test_two_readers_at_once_lose_nothing_and_see_each_other_only_afterwards(run):
    async with visit(Site(run.parent, reader="ann")) as ann, visit(Site(run.parent, reader="bob")) as bob:
        async with anyio.create_task_group() as group:
            for reader, mine in ((ann, "ok"), (bob, "infra")):
                for rollout in (0, 1):
                    for number in range(4):
                        group.start_soon(reader.post, link("desk", "label"), label(rollout, mine, f"a-{number}"))
        labels = read_labels(run)
        assert (len(labels.given), labels.damaged) == (16, ())
        page = link("desk", "review", at="a-0/0")
        _, text = await ann.read(page)
        assert "<b>bob</b>: infra" in text
    async with visit(Site(run.parent, reader="cy")) as new:
        _, text = await new.read(page)
        assert "infra</b>" not in text
        assert "2 other readers have a label here" in text
        _, text = await new.read(link("desk", "readers"))
        assert "ann and bob" in text
        assert "8" in text


async def test_a_run_without_rollouts_has_an_empty_queue(run, tmp_path):
    new = tmp_path / "runs" / "new"
    for folder in ("log", "segments"):
        (new / folder).mkdir(parents=True)
    (new / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    async with visit(Site(run.parent, reader="ann")) as ann:
        pages = {
            "review": "No rollout matches",
            "pairs": "Nothing to compare",
            "readers": "No labels yet",
            "environment": "Tools",
        }
        for page, says in pages.items():
            status, text = await ann.read(link("new", page))
            assert (status, says in text) == (200, True), page


async def test_an_evaluation_of_a_training_is_read_under_its_own_name(run, tmp_path):
    training = run.parent / "trained"
    (training / "evaluations").mkdir(parents=True)
    (training / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    place = run.rename(training / "evaluations" / "000010")
    async with visit(Site(run.parent, reader="ann")) as ann:
        for page in ("review", "pairs"):
            _, text = await ann.read(link("trained@000010", page))
            links = re.findall(r'(?:href|data-post)="(/run/[^"]*)"', text)
            assert links
            assert all(each.startswith("/run/trained%40000010") for each in links), links
        _, said = await ann.post(link("trained@000010", "label"), label(label="rude"))
        assert (await ann.read(said["next"]))[0] == 200
        _, text = await ann.read(link("trained@000010", "readers"))
        assert link("trained@000010", "review", at="a-0/0") in text
    assert len(read_labels(place).given) == 1


async def test_the_filter_of_the_address_is_the_queue(run):
    async with visit(Site(run.parent, reader="ann")) as ann:
        _, text = await ann.read(link("desk", "review", filter=1, low=1))
        assert "Queue: your filter, 2 rollouts" in text
        _, text = await ann.read(link("desk", "review", filter=1, label="model_wrong", task="-3"))
        assert "Queue: your filter, 2 rollouts" in text
        _, said = await ann.post(link("desk", "label", filter=1, task="-3"), label(task="a-3"))
        assert (said["done"], said["total"]) == (1, 2)
        assert said["next"] == link("desk", "review", filter=1, task="-3", at="a-3/1")
        assert (await ann.read(link("desk", "review", filter=1, outcome="failed")))[0] == 200
        assert (await ann.read(link("desk", "review", filter=1, low="many")))[0] == 404
        assert (await ann.read(link("desk", "review", at="a-9/9")))[0] == 404


async def test_a_pair_is_shown_blind_and_the_answer_is_stored_and_exported(run, sandlot):
    async with visit(Site(run.parent, reader="ann")) as ann:
        _, text = await ann.read(link("desk", "pairs"))
        shown = text.partition("<main>")[2]
        assert not re.search(r"score|scripted|golden|points", shown)
        pair = {name: re.search(f'data-{name}="([^"]*)"', text)[1] for name in ("task", "left", "right", "post")}
        told = {"task": pair["task"], "note": ATTACK}
        sides = {"left": int(pair["left"]), "right": int(pair["right"])}
        status, said = await ann.post(link("desk", "prefer"), {**told, **sides, "choice": "right"})
        assert (status, said["done"], said["total"]) == (200, 1, 4)
        for wrong in ({"choice": "best"}, {"left": 0, "right": 0}, {"left": 0, "right": 9}, {"task": "other"}, {"left": True}):
            assert (await ann.post(link("desk", "prefer"), {**told, **sides, "choice": "left", **wrong}))[0] == 400
        assert (await ann.read(said["next"]))[0] == 200
    (kept,) = read_preferences(run).given
    assert kept.better == sides["right"]
    assert sandlot("export", "preferences", run, "--split", "all", "--out", "out.jsonl", cwd=run).code == 0
    (row,) = [json.loads(line) for line in (run / "out.jsonl").read_text().splitlines()]
    assert {"prompt", "chosen", "rejected", "task"} <= set(row)


async def test_a_killed_server_loses_no_label_that_it_answered(run):
    command = (sys.executable, "-m", "sandlot", "view", str(run), "--reader", "ann", "--no-browser")
    async with await anyio.open_process(command) as server:
        address = (await BufferedByteReceiveStream(server.stdout).receive_until(b"\n", 1000)).decode()
        own = address.partition("/run")[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(URL(address, encoded=True)) as answer:
                assert answer.status == 200
            post = session.post(own + link("desk", "label"), json=label(), headers={"Origin": str(URL(own).origin())})
            async with post as answer:
                assert answer.status == 200
                os.kill(server.pid, signal.SIGKILL)
    assert [each.label for each in read_labels(run).given] == ["model_wrong"]
