"""Visits the pages of apps over real HTTP, as a person with a screen reader: forms are filled by the labels of their fields.

A field without a label cannot be filled here, and `problems` names it.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import anyio
from anyio.abc import SocketAttribute
from yarl import URL

from sandlot.apps.browser.sites import serve_sites
from sandlot.apps.live import LiveApps

VOID = {"meta", "input", "br", "hr", "img", "link", "col"}


class Page(HTMLParser):
    """What a page has: links, forms with their fields, texts, and what is wrong with it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html, self.text, self.title = html, "", ""
        self.links: list[tuple[str, str]] = []
        self.forms: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._labels: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self._ids: set[str] = set()
        self.feed(html)
        self.close()
        self._check()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in {"script", "img", "iframe", "object", "embed", "svg", "base"}:
            self.problems.append(f"<{tag}>")
        self.problems += [f"{name} of <{tag}>" for name in given if name.startswith("on")]
        self.problems += [
            f"{given[name][:30]} in <{tag}>" for name in ("href", "action", "src") if _is_script(given.get(name, ""))
        ]
        if given.get("id") in self._ids:
            self.problems.append(f"two elements have the id {given['id']}")
        self._ids |= {given["id"]} if "id" in given else set()
        if tag == "form":
            self.forms.append({**given, "fields": [], "buttons": []})
        if tag == "input":
            self._field(given | {"tag": tag})
        if tag not in VOID:
            self._open.append((tag, given, []))

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            name, given, words = self._open.pop()
            self._ended(name, given, " ".join("".join(words).split()), "".join(words))
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        if any(tag == "style" for tag, _, _ in self._open):
            return
        self.text += data
        for _, _, words in self._open:
            words.append(data)

    def _field(self, given: dict[str, Any]) -> None:
        if not self.forms:
            self.problems.append(f"a field {given} outside of a form")
            return
        self.forms[-1]["fields"].append(given)

    def _ended(self, tag: str, given: dict[str, str], words: str, raw: str) -> None:
        if tag == "a" and "href" in given:
            self.links.append((words, given["href"]))
        elif tag == "title":
            self.title = words
        elif tag == "label":
            self._labels[given.get("for", "")] = words
        elif tag == "textarea":
            self._field(given | {"tag": tag, "value": raw.removeprefix("\n")})
        elif tag == "option":
            self._options.append((given.get("value", words), words, "selected" in given))
        elif tag == "select":
            options = self._options
            chosen = next((value for value, _, selected in options if selected), options[0][0] if options else "")
            self._field(given | {"tag": tag, "options": options, "value": chosen})
            self.__dict__.pop("_all", None)
        elif tag == "button":
            self.forms[-1]["buttons"].append({**given, "text": given.get("aria-label", words)})

    @property
    def _options(self) -> list[tuple[str, str, bool]]:
        return self.__dict__.setdefault("_all", [])

    def label(self, field: dict[str, Any]) -> str:
        return field.get("aria-label") or self._labels.get(field.get("id", "-"), "")

    def _check(self) -> None:
        if not self.title or len(re.findall(r"<h1[ >]", self.html)) != 1 or '<html lang="en">' not in self.html:
            self.problems.append("a page has a title, one h1 and a language")
        for form in self.forms:
            for field in form["fields"]:
                if field.get("type") != "hidden" and not self.label(field):
                    self.problems.append(f"the field {field.get('name')} has no label")
            self.problems += [f"a button of {form.get('action')} has no text" for each in form["buttons"] if not each["text"]]


def _is_script(address: str) -> bool:
    return urlsplit(address.strip().lower()).scheme not in {"", "http", "https", "mailto"}


class Visitor:
    """One person with a browser that runs no scripts."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session, self._port = session, port
        self.url, self.page, self.status = "", Page('<html lang="en"><title>-</title><h1>-</h1>'), 0

    async def open(self, url: str, *, status: int | set[int] = 200) -> Page:
        """Open an address such as `http://tickets.example/`."""
        return await self._ask("GET", urljoin(self.url, url), None, status)

    async def follow(self, text: str) -> Page:
        """Follow the first link with this text."""
        found = next((href for words, href in self.page.links if words == text), None)
        assert found is not None, (text, self.page.links)
        return await self.open(found)

    async def submit(self, button: str, *, status: int = 200, **values: str) -> Page:
        """Fill the form with this button by the labels of its fields (`_` for a space) and press it."""
        wanted = {name.replace("_", " "): value for name, value in values.items()}
        for form in self.page.forms:
            pressed = next((each for each in form["buttons"] if each["text"] == button), None)
            if pressed is not None:
                break
        else:
            raise AssertionError(f"no button {button}: {[each['buttons'] for each in self.page.forms]}")
        data: dict[str, str] = {}
        for field in form["fields"]:
            label = self.page.label(field)
            given = next((name for name in wanted if label == name or label.startswith(f"{name} (")), None)
            value = str(field.get("value", ""))
            if given is not None:
                value = wanted.pop(given)
                if "options" in field:
                    value = next(option for option, shown, _ in field["options"] if value in {option, shown})
            if field.get("type") != "checkbox" or given is not None:
                data[field["name"]] = value
        assert not wanted, f"no such fields: {wanted}"
        if "name" in pressed:
            data[pressed["name"]] = pressed.get("value", "")
        address = urljoin(self.url, form.get("action", ""))
        if form.get("method", "get") == "get":
            return await self._ask("GET", str(URL(address).extend_query(data)), None, status)
        return await self._ask("POST", address, data, status)

    async def _ask(self, method: str, url: str, data: dict[str, str] | None, status: int | set[int]) -> Page:
        parts = urlsplit(url)
        host = parts.netloc
        headers = {"Host": host} | ({"Origin": f"http://{host}"} if method == "POST" else {})
        address = URL(url, encoded=True).with_host("127.0.0.1").with_port(self._port)
        async with self._session.request(method, address, data=data, headers=headers, allow_redirects=False) as answer:
            body = (await answer.read()).decode(errors="replace")
            if answer.status == 303:
                return await self._ask("GET", urljoin(url, answer.headers["Location"]), None, status)
            assert answer.status in ({status} if isinstance(status, int) else status), (method, url, answer.status, body[-1500:])
        self.url, self.status = url, answer.status
        self.page = Page(body) if "html" in answer.headers.get("Content-Type", "") else Page(f"<title>-</title><pre>{body}")
        return self.page


class _SocketStream:
    """A TCP connection as the stream of a sandbox."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def receive(self, max_bytes: int = 65536) -> bytes:
        try:
            return await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _PortWorld(SimpleNamespace):
    """A world whose port is one of this machine."""

    @asynccontextmanager
    async def listen(self, _port: int) -> AsyncGenerator[AsyncIterator[_SocketStream]]:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            self.port = listener.extra(SocketAttribute.local_port)
            yield self._accepted(listener.listeners[0])

    async def _accepted(self, listener: Any) -> AsyncIterator[_SocketStream]:
        while True:
            yield _SocketStream(await listener.accept())


@asynccontextmanager
async def visit(apps: LiveApps) -> AsyncGenerator[Visitor]:
    """Serve every app at `NAME.example` and visit them."""
    world: Any = _PortWorld(apps=apps)
    async with (
        serve_sites(world, 80, {f"{app.name}.example": app.name for app in apps}) as server,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        yield Visitor(session, world.port)
        assert server.error is None, server.error
