"""The page of a trace, what it loads on demand, and the bytes it shows. Over a real server; all content is hostile."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from builders.view_pages import ATTACK, CAST, FILES, HTML, PDF, PICTURES, SVG, make_run
from sandlot.core.trace import Trace
from sandlot.core.types import digest
from sandlot.run.recording import asciicast_of
from sandlot.run.results import Run
from sandlot.web.app import serve_view
from sandlot.web.artifacts import artifact_of
from sandlot.web.pages.timeline import draw_timeline
from sandlot.web.site import Site, link

NAME = "desk <b>"


class Reader:
    """A reader of the pages."""

    def __init__(self, session: aiohttp.ClientSession, address) -> None:
        self._session, self._address = session, address

    async def page(self, page: str, rollout: int = 1, **query: str | int) -> str:
        status, text, _ = await self.get(page, rollout, **query)
        assert status == 200, text
        return text

    async def get(self, page: str, rollout: int = 1, **query: str | int) -> tuple[int, str, dict[str, str]]:
        url = self._address(link(NAME, page, task="made", rollout=rollout, **query))
        async with self._session.get(URL(url, encoded=True)) as answer:
            return answer.status, (await answer.read()).decode(errors="replace"), dict(answer.headers)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("made"))


@asynccontextmanager
async def reading(run: Path) -> AsyncGenerator[Reader]:
    async with (
        serve_view(Site(run.parent)) as address,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        yield Reader(session, address)


async def test_a_trace_has_checks_timeline_files_frames_and_commands(run):
    async with reading(run) as reader:
        text = await reader.page("trace")
        assert 'id="check-said"' in text
        for command in ("replay", "shell", "record"):
            assert re.search(rf"sandlot {command} &#39;\S*/runs/desk &lt;b&gt;/made/1&#39;", text), command
        assert all(f">{lane}<" in text for lane in ("environment", "model", "tools", "grading"))
        assert text.count("<figure><a href=") == 3
        assert '<span class="add">+three and a half</span>' not in text, "its bytes before are not stored"
        assert "are not stored, only their hash" in text
        assert '<span class="del">-bye</span>' in text
        assert "1 files as the rollout found them" in text


async def test_hostile_text_stays_text_on_every_page(run):
    async with reading(run) as reader:
        pages = [await reader.page("trace")]
        pages += [await reader.page("file", path=path) for path in FILES]
        for text in pages:
            assert "<img src=x" not in text
            assert "<script>" not in text
            assert text.count("<script") == 1, "ours alone"
            assert not re.search(r'href="(?!/|#|\?)', text), "no link leads elsewhere"


async def test_a_long_trace_shows_its_ends_and_any_part_of_it(run):
    async with reading(run) as reader:
        text = await reader.page("trace", 3)
        assert text.count("<article") == 200
        assert len(text) < 400_000
        assert "<b>402</b> messages are not shown" in text
        middle = await reader.page("trace", 3, **{"from": 300})
        assert 'id="m300"' in middle
        assert 'id="m499"' in middle
        assert 'id="m299"' not in middle
        beyond = await reader.page("trace", 3, **{"from": 99999})
        assert "<article" not in beyond


async def test_long_texts_are_cut_and_the_rest_is_sent_on_demand(run):
    async with reading(run) as reader:
        assert "5,000 more characters" in await reader.page("trace")
        piece = json.loads(await reader.page("text", message=4, part=0))
        assert (piece["text"], piece["next"], piece["size"]) == ("x" * 9000, None, 9000)
        rest = json.loads(await reader.page("text", message=4, part=0, **{"from": 8990}))
        assert rest["text"] == "x" * 10
        for wrong in ({"message": 4, "part": 7}, {"message": 9999, "part": 0}):
            assert (await reader.get("text", **wrong))[0] == 404


async def test_tokens_are_sent_with_their_numbers(run):
    async with reading(run) as reader:
        text = await reader.page("trace")
        assert "logprob" not in text, "tokens are loaded when they are opened"
        tokens = json.loads(await reader.page("tokens", message=1))
        assert tokens["ids"] == [100, 7, 8, 9]
        assert tokens["logprobs"][2] is None, "NaN is no JSON"
        assert (tokens["mask"], tokens["versions"]) == ([1, 1, 0, 1], [4, 4, 5, 5])
        assert tokens["texts"] is None
        assert "no tokenizer" in tokens["unread"]
        assert (await reader.get("tokens", message=0))[0] == 404
        assert (await reader.get("tokens", message=10**8))[0] == 404


@pytest.mark.parametrize(
    ("data", "media_type", "place"),
    [
        (SVG, "text/plain; charset=utf-8", "inline"),
        (HTML, "text/plain; charset=utf-8", "inline"),
        (PDF, "application/pdf", "inline"),
        (PICTURES[0], "image/png", "inline"),
        (b"\0\1\2\3" * 8, "application/octet-stream", "attachment"),
    ],
    ids=["svg", "html", "pdf", "png", "bytes"],
)
async def test_stored_bytes_are_sent_as_what_they_are_and_never_as_a_page(run, data, media_type, place):
    async with reading(run) as reader:
        status, _, headers = await reader.get("artifact", id=digest(data), name="../x\r\nSet-Cookie: a=b.html")
        assert status == 200
        assert headers["Content-Type"] == media_type
        assert headers["Content-Disposition"] == f"{place}; filename*=UTF-8''x%0D%0ASet-Cookie%3A%20a%3Db.html"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert ("sandbox;" in headers["Content-Security-Policy"]) is (data is not PDF)
        assert "allow-scripts" not in headers["Content-Security-Policy"]


async def test_a_drawing_is_an_image_only_where_one_is_asked_for(run):
    async with reading(run) as reader:
        _, _, headers = await reader.get("artifact", id=digest(SVG), **{"as": "image"})
        assert headers["Content-Type"] == "image/svg+xml"
        assert headers["Content-Security-Policy"].startswith("sandbox;")
        _, _, headers = await reader.get("artifact", id=digest(HTML), **{"as": "image"})
        assert headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("wanted", ["", "..", "../../manifest.json", "f" * 64, "F" * 64, ATTACK, "0" * 5000])
async def test_only_stored_bytes_are_sent(run, wanted):
    async with reading(run) as reader:
        status, text, _ = await reader.get("artifact", id=wanted)
        assert status == 404
        assert "manifest" not in text.replace("manifest.json`", "")


@pytest.mark.parametrize("path", ["/etc/passwd", "../../manifest.json", "", "/out"])
async def test_only_files_of_the_rollout_are_shown(run, path):
    async with reading(run) as reader:
        assert (await reader.get("file", path=path))[0] == 404


async def test_a_file_is_shown_as_what_it_is(run):
    async with reading(run) as reader:
        assert '<th scope="col">name</th>' in await reader.page("file", path="/out/table.csv")
        assert "<td>&lt;b&gt;ann&lt;/b&gt;</td>" in await reader.page("file", path="/out/table.csv")
        assert '<details class="recording" open>' in await reader.page("file", path="/out/session.cast")
        assert "<iframe" in await reader.page("file", path="/out/paper.pdf")
        assert "as=image" in await reader.page("file", path="/out/drawing.svg")
        assert "save them to look at them" in await reader.page("file", path="/out/raw.bin")


def test_comments_before_a_drawing_are_read_in_linear_time():
    assert artifact_of(b"<!---->" * 500_000).kind == "text"
    assert artifact_of(b"<?xml version='1.0'?><!-- a --><svg>").kind == "svg"


def test_a_timeline_of_thousands_of_turns_stays_small(run):
    trace: Trace = Run(run).trace("made", 3)
    trace.nodes *= 20
    timeline = draw_timeline(trace)
    assert timeline is not None
    assert sum(len(lane["rectangles"]) for lane in timeline["lanes"]) < 2000
    assert draw_timeline(Trace(run="r", task="t", rollout=0, seed=0)) is None


def test_a_recording_is_an_asciicast_without_escapes(run):
    head, *events = [
        json.loads(line) for line in asciicast_of(Run(run).trace("made", 1), Run(run).reader.blobs.read).splitlines()
    ]
    assert (head["version"], type(head["width"]), type(head["height"]), type(head["timestamp"])) == (2, int, int, int)
    times = [time for time, _, _ in events]
    assert times == sorted(times)
    assert {kind for _, kind, _ in events} == {"o", "m"}
    printed = "".join(text for _, kind, text in events if kind == "o")
    assert printed.startswith("$ ls\r\n" + ATTACK)
    assert "\x1b" not in printed
    assert "\n" not in printed.replace("\r\n", "")
    assert json.loads(CAST.splitlines()[0])["version"] == 2


async def test_the_recording_is_sent_to_the_player(run):
    async with reading(run) as reader:
        events = json.loads(await reader.page("recording"))["events"]
        assert events[1][1:] == ["o", "$ ls\r\n"]
