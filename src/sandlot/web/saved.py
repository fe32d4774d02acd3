"""Chosen traces of a run as one file that needs no server: the same pages, with what was left out said in it.

Everything passes the redaction rules before it is cut or drawn. The file loads nothing: its policy names its one script and its
one style by their hashes, and images are in it.
"""

import base64
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, DictLoader
from starlette.datastructures import QueryParams

from sandlot.core.errors import ConfigError
from sandlot.core.redaction import RedactionRules
from sandlot.core.text import printable
from sandlot.core.trace_row import TraceRow
from sandlot.run.results import Run
from sandlot.web.app import page_templates
from sandlot.web.artifacts import artifact_of, read_blob
from sandlot.web.bundle import bundle_scripts, bundle_styles, content_hash
from sandlot.web.pages.diff import diff_page
from sandlot.web.pages.files import file_page
from sandlot.web.pages.group import group_page
from sandlot.web.pages.messages import show_messages, text_slice
from sandlot.web.pages.run import run_page
from sandlot.web.pages.tokens import token_columns
from sandlot.web.pages.trace import recording_data, show_trace
from sandlot.web.redacted import RedactedRun
from sandlot.web.site import Asked, Site

RULES_FILE = "redaction.txt"
"""In a run directory: regular expressions, one a line, of what is removed before the run is given to others."""
_MESSAGES = 1_000
_FILES = 20
"""Changed files of a trace that have a page."""
_TEXT_CHARS, _IMAGE_BYTES = 5_000_000, 20_000_000
"""What is put into one file in all: of long texts, and of images."""
_BASE = """<template data-page="{{ page }}" data-title="{{ title }} · sandlot" data-script="{% block script %}view{% endblock %}">
<header><nav aria-label="where">{% block where %}<a href="/">runs</a>{% endblock %}</nav></header>
<main>{% block body %}{% endblock %}</main></template>{% block styles %}{% endblock %}"""
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([\w-]+)\.css">')
_OUTWARD = re.compile(r'(<a [^>]*?)href="(?!#|")[^"]*"')
"""A link that leads out of the file: to another part of a long table, or to a page that is drawn on demand."""
_DRAWN = re.compile(r'(>|(?:title|alt|value|placeholder|aria-label|data-[a-z]+)=")((?<=>)[^<]+(?=<)|(?<=")[^"]*(?="))')
"""Texts and attributes of a page that hold what others wrote, without the mark that ends them: a rule may match to the end."""
_SCRIPT = re.compile(r'data-script="([\w-]+)"')
_DATA = {"tokens": token_columns, "text": text_slice, "recording": recording_data}


@dataclass(frozen=True, slots=True)
class SavedFile:
    """The file, and what is in it."""

    text: str
    num_pages: int
    num_traces: int
    num_redacted: int


def redact_drawn(page: str, rules: RedactionRules) -> str:
    """A page with its texts and attributes redacted, and its marks as they were."""
    return _DRAWN.sub(lambda found: found[1] + rules.redact(found[2]), page)


def choose_traces(rows: Iterable[TraceRow], most: int) -> list[tuple[str, int]]:
    """The rollouts that a reader wants first: failures, then the lowest scores; in the order of the run if they are equal."""
    ordered = sorted(rows, key=lambda row: (row.score is not None, row.score or 0.0))
    return [(row.task, row.rollout) for row in ordered[:most]]


@dataclass(frozen=True, slots=True)
class SavedNote:
    """Something said about the run on the first page of the file, with the rollouts that show it."""

    grave: bool
    said: str
    rollouts: Sequence[tuple[str, int]] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SavedNotes:
    """What the first page of the file says about the run."""

    about: str
    notes: Sequence[SavedNote]


def save_pages(
    path: Path,
    chosen: Sequence[tuple[str, int]],
    *,
    tokens: bool = False,
    hide: Sequence[str] = (),
    notes: SavedNotes | None = None,
) -> SavedFile:
    """The pages of a run and of these rollouts as one file.

    `hide` are regular expressions of more that is removed; `notes` are shown on the first page.
    """
    if not chosen:
        raise ConfigError(f"`{path}` has no rollout to save; name one: RUN/TASK/ROLLOUT")
    rules_file = path / RULES_FILE
    kept = rules_file.read_text().splitlines() if rules_file.is_file() else []
    rules = RedactionRules(os.environ, [line for line in (*kept, *hide) if line.strip()])
    saving = _Saving(path, rules, tokens=tokens, notes=notes)
    return saving.save(chosen)


@dataclass(frozen=True)
class _RedactedAsked(Asked):
    """A page that is asked for of a run that is given to others."""

    redacted: RedactedRun = field(kw_only=True)

    @property
    def opened(self) -> Run:
        """The redacted run."""
        return self.redacted


class _Saving:
    """The work of saving one file."""

    def __init__(self, path: Path, rules: RedactionRules, *, tokens: bool, notes: SavedNotes | None = None) -> None:
        self._path, self._rules, self._tokens = path, rules, tokens
        self._notes = notes
        self._run = RedactedRun(path, rules)
        self._site = Site(path.parent)
        self._pages: dict[tuple[Any, ...], str] = {}
        self._data: dict[str, bytes] = {}
        self._images: dict[str, str] = {}
        self._texts_left, self._images_left = _TEXT_CHARS, _IMAGE_BYTES
        self._now = ("", 0)
        """The rollout whose page is being drawn."""
        self._templates = page_templates(link=self._link, site=self._site, saved=True)
        loader = self._templates.loader
        assert loader is not None
        self._templates.loader = ChoiceLoader([DictLoader({"base.html": _BASE}), loader])

    def save(self, chosen: Sequence[tuple[str, int]]) -> SavedFile:
        """Draw every page, then the file around them."""
        groups = {task: group_page(self._asked(task=task)) for task in dict.fromkeys(task for task, _ in chosen)}
        pairs = {task: (shown["best"], shown["worst"]) for task, shown in groups.items() if shown["best"] is not None}
        traces = {key: self._run.trace(*key) for key in chosen}
        files = {key: self._changed_files(show_trace(self._run, trace)) for key, trace in traces.items()}
        self._number(chosen, groups, pairs, files)
        bodies = [self._draw("run.html", run_page(self._asked()) | {"live": False}, "")]
        for task, shown in groups.items():
            bodies.append(self._draw("group.html", shown, "group", task=task))
        for task, (one, other) in pairs.items():
            asked = {"task": task, "one": one, "other": other}
            bodies.append(self._draw("diff.html", diff_page(self._asked(**asked)), "diff", **asked))
        for key, trace in traces.items():
            self._now, asked = key, {"task": key[0], "rollout": key[1]}
            shown = show_trace(self._run, trace) | {"messages": show_messages(trace, None, most=_MESSAGES), "start": None}
            bodies.append(self._draw("trace.html", shown, "trace", **asked))
            bodies += [
                self._draw("file.html", file_page(self._asked(**asked, path=file)), "file", **asked, path=file)
                for file in files[key]
            ]
        rows = [row for task in groups for row in self._run.reader.task_rows(task) if (row.task, row.rollout) in traces]
        first = self._draw("saved.html", self._contents(rows), "index")
        return SavedFile(self._around([first, *bodies]), len(bodies) + 1, len(traces), self._rules.num_redacted)

    def _asked(self, **query: str | int) -> Asked:
        params = QueryParams({name: str(value) for name, value in query.items()})
        return _RedactedAsked(self._site, self._path.name, params, redacted=self._run)

    def _changed_files(self, shown: dict[str, Any]) -> list[str]:
        return [file["path"] for file in shown["files"]["changed"][:_FILES]] if shown["files"] else []

    def _number(
        self, chosen: Sequence[tuple[str, int]], groups: Iterable[str], pairs: dict[str, Any], files: dict[Any, list[str]]
    ) -> None:
        """Give every page its address before the first is drawn: they link to each other."""
        wanted: list[tuple[str, dict[str, Any]]] = [("index", {}), ("", {}), *(("group", {"task": task}) for task in groups)]
        wanted += [("diff", {"task": task, "one": one, "other": other}) for task, (one, other) in pairs.items()]
        for task, rollout in chosen:
            asked = {"task": task, "rollout": rollout}
            wanted += [("trace", asked), *(("file", {**asked, "path": path}) for path in files[task, rollout])]
        for number, (page, query) in enumerate(wanted):
            self._pages[self._key(page, query)] = f"page-{number}"

    def _key(self, page: str, query: dict[str, Any]) -> tuple[Any, ...]:
        """What makes a page's address: as it is after redaction, so that a link with a redacted name finds its page."""
        return page, *sorted((name, self._rules.redact(str(value))) for name, value in query.items())

    def _draw(self, template: str, shown: dict[str, Any], page: str, **query: str | int) -> str:
        clean = self._rules.redact_all(shown) | {"page": self._pages[self._key(page, query)]}
        text = self._templates.get_template(template).render(clean).replace('href="/"', 'href="#page-0"')
        text = _OUTWARD.sub(r'\1href="#left-out"', text)
        # What a page holds in other forms than texts and records is redacted in what was drawn.
        return redact_drawn(text, self._rules)

    def _link(self, run: str, page: str = "", **query: str | int) -> str:
        """The address of a page of the file, or what stands for one that was left out."""
        if self._rules.redact(run) != self._rules.redact(self._path.name):
            return "#left-out"
        if page == "artifact":
            return self._image(str(query["id"])) if query.get("as") == "image" else "#left-out"
        if page in _DATA:
            return self._hold(page, query)
        found = self._pages.get(self._key(page, query))
        return f"#{found}" if found else "#left-out"

    def _image(self, digest: str) -> str:
        """An image as an address that holds it; empty if it does not fit."""
        if digest not in self._images:
            data = read_blob(self._run, digest)
            found = artifact_of(data)
            if found.kind not in {"image", "svg"} or len(data) > self._images_left:
                return ""
            self._images_left -= len(data)
            media_type = "image/svg+xml" if found.kind == "svg" else found.media_type
            self._images[digest] = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
        return self._images[digest]

    def _hold(self, page: str, query: dict[str, Any]) -> str:
        """Put into the file what a page loads on demand; returns its address."""
        address = f"{page}-{len(self._data)}"
        source = f"{address}&from=0" if page == "text" else address
        if page == "tokens" and not self._tokens:
            return source
        start: int | None = 0
        task, rollout = self._now
        while start is not None and self._texts_left > 0:
            asked = self._asked(**{**query, "task": task, "rollout": rollout, "from": start})
            columns = _DATA[page](asked)
            if page == "tokens" and self._spells_secret(columns):
                break
            encoded = msgspec.json.encode(columns)
            self._texts_left -= len(encoded)
            self._data[source if start == 0 else f"{address}&from={start}"] = encoded
            start = columns.get("next")
        return source

    def _spells_secret(self, columns: dict[str, Any]) -> bool:
        spelled = "".join(columns["texts"] or ())
        return self._rules.redact(spelled) != spelled

    def _contents(self, rows: list[TraceRow]) -> dict[str, Any]:
        """The first page: what the file holds, and what it does not."""
        return {
            "title": self._path.name,
            "name": self._path.name,
            "rows": rows,
            "notes": None if self._notes is None else [self._noted(note) for note in self._notes.notes],
            "about": "" if self._notes is None else printable(self._notes.about, 1000),
            "num_rollouts": len(self._run),
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "version": version("sandlot"),
            "tokens": self._tokens,
            "texts_full": self._texts_left <= 0,
            "most_messages": _MESSAGES,
            "most_files": _FILES,
            "num_redacted": self._rules.num_redacted,
            "rules_file": RULES_FILE,
        }

    def _noted(self, note: SavedNote) -> dict[str, Any]:
        return {
            "grave": note.grave,
            "said": printable(note.said, 1000),
            "rollouts": list(note.rollouts),
            "commands": [printable(command, 1000) for command in note.commands],
        }

    def _around(self, bodies: list[str]) -> str:
        drawn = "\n".join(bodies)
        style = bundle_styles(["view", *_STYLE.findall(drawn)])
        script = bundle_scripts(["saved", *_SCRIPT.findall(drawn)]) + 'use("saved");\n'
        policy = (
            f"default-src 'none'; script-src {content_hash(script)}; style-src {content_hash(style)}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        held = "\n".join(
            f'<template data-address="{escape(address)}">{escape(data.decode())}</template>'
            for address, data in self._data.items()
        )
        return (
            f'<!doctype html>\n<html lang="en" data-saved>\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
            '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
            f"<title>{escape(self._rules.redact(self._path.name))} · sandlot</title>\n<style>{style}</style>\n</head>\n<body>\n"
            "<noscript>These pages are shown by a script in this file. Allow scripts to read them.</noscript>\n"
            '<dialog id="left-out-note"><p>This page was left out of the file.</p><button type="button">close</button></dialog>\n'
            f"{_STYLE.sub('', drawn)}\n{held}\n<script>{script}</script>\n</body>\n</html>\n"
        )
