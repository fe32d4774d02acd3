"""A real Chromium follows the links of `sandlot view`: every kind of page, at two widths, without a console error."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import sandlot
from drive.browser import open_browser
from sandlot.run.results import Run
from sandlot.web import app
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link, serve_environment

pytestmark = [pytest.mark.system, pytest.mark.core]

MOST_OF_A_KIND = 2
LINKS = "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
RECIPE = """
import sandlot
from sandlot.train import Evaluation

def recipe():
    measured = Evaluation(every=1, tasks=2, group=1)
    return sandlot.Recipe(name="tiny", env="drill", steps=1, tasks=2, group=2, resample=1, evaluation=measured)
"""
MIXED = """
from sandlot import Environment, Task

env = Environment("mixed")

@env.tasks
def tasks(rng):
    for number in range(6):
        yield Task(id=f"task-{number}", prompt="Say anything.")

@env.tool
def look(world) -> str:
    "Look."
    return "nothing"

@env.check(points=1)
def said(evidence, task):
    if task.id == "task-5":
        raise ValueError("broken")
    return task.id != "task-1" and bool(evidence.answer)

@env.solution
async def solve(agent, task):
    await agent.call("look")
    await agent.say("done")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run with failures, the same with another model, a calibration, a training, and an audit with findings."""
    place = tmp_path_factory.mktemp("walk")
    runs = place / "runs"
    runs.mkdir()
    (place / "mixed.py").write_text(MIXED)
    (place / "recipe.py").write_text(RECIPE)
    for name, model in (("good", "scripted:golden"), ("bad", "scripted:noop")):
        run = sandlot.run(place / "mixed.py", model, group=2, runs=place / "made")
        run.path.rename(runs / name)
    for words in (
        ["train", "recipe.py", "--run", "runs/tiny"],
        ["calibrate", "mixed.py", "-m", "scripted:mixed:0.5"],
        ["audit", "mixed.py", "--limit", "1"],
    ):
        command = [sys.executable, "-m", "sandlot", *words, "--json"]
        done = subprocess.run(command, cwd=place, capture_output=True, timeout=200, check=False)
        assert done.returncode in {0, 1}, done.stderr
    return runs


def kind_of(path: str) -> str:
    """The address without what it is about."""
    return re.sub(r"^/run/[^/]+", "/run/{run}", path)


async def test_every_page_that_a_link_leads_to_is_there_and_says_nothing_on_the_console(folder):
    seen: Counter[str] = Counter()
    (changed, *_) = Run(folder / "tiny")  # it has files, which the others have not
    waiting = ["/", "/environment", "/audits", *(link(name) for name in ("good", "bad", "tiny"))]
    waiting += [
        link("tiny", "trace", task=changed.task, rollout=changed.rollout),
        link("good", "diff", task="task-0", one=0, other=1),
        link("good", "findings"),  # the page of the run shows it in place
    ]
    known = set[str]()
    environment = serve_environment(str(folder.parent / "mixed.py"))
    async with (
        serve_view(Site(folder, control=True, reader="walker", environment=environment)) as address,
        open_browser() as browser,
    ):
        while waiting:
            page = waiting.pop(0)
            kind = kind_of(urlsplit(page).path)
            if page in known or kind in app._BYTES or seen[kind] >= MOST_OF_A_KIND:
                continue
            known.add(page)
            seen[kind] += 1
            for width in (420, 1600):
                await browser.open(address(page), width)
                assert await browser.evaluate("document.title.endsWith('sandlot') && !document.title.startsWith('not found')"), (
                    page
                )
                assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
            assert browser.problems == [], page
            root = urlsplit(address("/")).path.rstrip("/")
            found = [each.partition("#")[0].removeprefix(root) for each in await browser.evaluate(LINKS)]
            here = urlsplit(page).path
            waiting += [here + each if each.startswith("?") else each for each in found if each.startswith(("/", "?"))]
    # Rubrics are edited in environments that are folders: `test_rubric_in_browser.py`.
    assert app._PAGES.keys() - seen.keys() == {"/rubric"}
