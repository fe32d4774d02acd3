"""MiniWoB's pages behind a browser: the host serves the package's files and records the first result that a page reports.

A page begins one episode, with the task's seed, as soon as it is loaded. When it ends, the page reports the reward to an address
that only the page knows. An agent that ran a script in the page could report what it likes. The browser's tools run none, and
the page may run only its own: some pages show what was typed as HTML, and a handler in it would be a script of the agent.
"""

import mimetypes
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from sandlot.apps.browser.browser import Browser
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import ConfigError
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, World
from sandlot.interop.packages.requirement import require_package

SITE = "miniwob.example"
_STATIC = ("core", "common")
"""The folders that pages load scripts, styles and pictures from."""
_FIRST_SCRIPT = '<script src="../core/core.js"></script>'
_ONE_EPISODE = """
(function () {
  var begin = core.startEpisode, end = core.endEpisode, begun = false;
  core.startEpisode = function () {
    begin();
    core.cover_div.onclick = null;
    core.cover_div.innerHTML = 'The episode is over.';
    if (begun) { return; }
    begun = true;
    core.EPISODE_MAX_TIME = 86400000;
    Math.seedrandom('SEED');
    core.startEpisodeReal();
  };
  core.endEpisode = function (reward, time_proportional, reason) {
    if (core.EP_TIMER === null) { return; }
    end(reward, time_proportional, reason);
    var request = new XMLHttpRequest();
    request.open('POST', '/result/TOKEN', false);
    request.setRequestHeader('Content-Type', 'application/x-www-form-urlencoded');
    request.send('reward=' + encodeURIComponent(reward));
  };
})();
"""


def html_folder() -> Path:
    """Where the installed package has its pages."""
    found = find_spec("miniwob")
    if found is None or not found.submodule_search_locations:
        raise ConfigError("the package `miniwob` is not installed; `pip install miniwob`")
    return Path(found.submodule_search_locations[0]) / "html"


@dataclass(frozen=True, slots=True)
class MiniWobWorld:
    """A browser with the page of the task as a source of tools."""

    requires: str
    """The package, `NAME==VERSION`."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Serve the page and start the browser."""
        require_package(self.requires, "miniwob.constants")
        return _opened(world)


@asynccontextmanager
async def _opened(world: World) -> AsyncGenerator[Sequence[Tool]]:
    pages = _Pages(html_folder(), str(world.task.data["page"]), int(world.task.data["seed"]), secrets.token_hex(16))
    async with Browser(sites={SITE: pages.respond}).open(world) as tools:
        yield tools


@dataclass(frozen=True, slots=True)
class _Pages:
    """The site of one rollout."""

    html: Path
    page: str
    seed: int
    token: str

    def respond(self, world: World, request: PageRequest) -> PageResponse:
        """The task's page at `/`, its files, and the report of its result."""
        if request.method == "POST":
            return self._reported(world, request)
        if request.path == "/":
            return self._task_page()
        parts = PurePosixPath(request.path).parts[1:]
        file = self.html.joinpath(*parts)
        if not parts or parts[0] not in _STATIC or ".." in parts or not file.is_file():
            return PageResponse.error(404, "There is no such page.")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return PageResponse(headers={"Content-Type": kind}, body=file.read_bytes())

    def _task_page(self) -> PageResponse:
        """The page with our script after its first. Scripts without the nonce do not run, nor do handlers in attributes."""
        text = (self.html / "miniwob" / f"{self.page}.html").read_text(encoding="utf-8")
        nonce = secrets.token_hex(16)
        ours = _ONE_EPISODE.replace("SEED", str(self.seed)).replace("TOKEN", self.token)
        text = text.replace(_FIRST_SCRIPT, f"{_FIRST_SCRIPT}<script>{ours}</script>", 1).replace(
            "<script>", f'<script nonce="{nonce}">'
        )
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": f"script-src 'self' 'nonce-{nonce}'; object-src 'none'; frame-src 'none'",
        }
        return PageResponse(headers=headers, body=text.encode())

    def _reported(self, world: World, request: PageRequest) -> PageResponse:
        if not secrets.compare_digest(request.path, f"/result/{self.token}"):
            return PageResponse.error(404, "There is no such page.")
        if "reward" not in world.state:  # only the first: a page that is loaded again begins again
            world.state["reward"] = float(request.form["reward"])
        return PageResponse(status=204)


def score_of_page(evidence: Evidence) -> tuple[float, str]:
    """The first reward that the page gave, from 0 to 1."""
    if "reward" not in evidence.state:
        return 0.0, "the page has given no reward"
    reward = float(evidence.state["reward"])
    if not -1.0 <= reward <= 1.0:
        raise ValueError(f"the page gave the reward {reward:g}; MiniWoB's are from -1 to 1")
    return max(reward, 0.0), f"the page gave {reward:g}"
