"""Chromium as a part of a world: started for one rollout, closed with it, reaching only the sites that the host serves.

env.marked.sources.append(Browser(sites={"shop.example": shop_page}))
"""

import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sandlot.apps.browser.devtools import open_devtools
from sandlot.apps.browser.sites import SitePages, serve_sites
from sandlot.apps.browser.tools import BrowserTool, browser_tools
from sandlot.apps.browser.window import Window
from sandlot.core.ports.sandbox import Command
from sandlot.core.ports.world import World

BROWSER_IMAGE = "debian:trixie?chromium-headless-shell,fonts-dejavu-core"
"""The image a browser needs."""

_PORT = 8080
_HOME = "/dev/shm"  # noqa: S108 - in the sandbox; what the browser writes there is not evidence
_FONTS = f"<fontconfig><dir>/usr/share/fonts</dir><cachedir>{_HOME}/fonts</cachedir></fontconfig>"
_OPTIONS = (
    "--headless",
    "--no-sandbox",  # the sandbox around the browser isolates it
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication",
    "--disable-gpu",
    "--disable-sync",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--in-process-gpu",
    "--lang=en-US",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-first-run",
    "--no-zygote",
    "--renderer-process-limit=1",
    "--window-size=1280,900",
)


@dataclass(frozen=True)
class SitePort:
    """Sites on a port of the sandbox, without a browser: for a browser of your own, such as a public MCP server inside."""

    sites: Mapping[str, str | SitePages]
    """As for `Browser`; requests name the host in their `Host` header."""
    port: int = 8080

    def __repr__(self) -> str:
        return f"sites on port {self.port}: {', '.join(self.sites)}"

    @asynccontextmanager
    async def open(self, world: World) -> AsyncGenerator[Sequence[BrowserTool]]:
        """Serve the sites; there are no tools."""
        async with serve_sites(world, self.port, self.sites):
            yield ()


@dataclass(frozen=True)
class Browser:
    """A browser as a source of tools."""

    sites: Mapping[str, str | SitePages] = field(default_factory=dict[str, str | SitePages])
    """The sites by host name: the name of an app that has pages, or a function from world and request to response.

    No other address can be reached."""
    program: str = "chromium-headless-shell"
    screenshots: bool = False
    """True for the tool `browser_take_screenshot`; the environment must declare `images`."""

    def __repr__(self) -> str:
        return f"browser {self.program} with {', '.join(self.sites) or 'no sites'}"

    def command(self) -> Command:
        """What starts the browser inside: requests on its standard input, answers on its standard output."""
        names = " , ".join(f"MAP {host} 127.0.0.1:{_PORT}" for host in self.sites)
        rules = f"--host-resolver-rules={names} , MAP * ~NOTFOUND" if names else "--host-resolver-rules=MAP * ~NOTFOUND"
        words = [self.program, *_OPTIONS, rules, f"--user-data-dir={_HOME}/profile", "about:blank"]
        line = f"echo {shlex.quote(_FONTS)} > {_HOME}/fonts.conf; exec {shlex.join(words)} 3<&0 4>&1 </dev/null >&2"
        env = {"HOME": _HOME, "FONTCONFIG_FILE": f"{_HOME}/fonts.conf", "TZ": "UTC"}
        return Command(argv=("/bin/sh", "-c", line), env=env)

    @asynccontextmanager
    async def open(self, world: World) -> AsyncGenerator[Sequence[BrowserTool]]:
        """Serve the sites, start the browser, yield its tools; both end with the context."""
        async with serve_sites(world, _PORT, self.sites) as server:
            process = await world.spawn(self.command())
            async with open_devtools(process) as devtools:
                window = Window(devtools)
                await window.open()
                yield browser_tools(window, server, screenshots=self.screenshots)
