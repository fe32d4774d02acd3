"""A desktop as a part of a world: started for one rollout after its setup, closed with it.

env.use(Desktop(applications={"editor": ("mousepad",)}))
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import anyio

from sandlot.apps.desktop.program import InsideProgram, start_program
from sandlot.apps.desktop.screen import DesktopScreen
from sandlot.apps.desktop.tools import DesktopTool, desktop_tools
from sandlot.core.errors import ConfigError, SandboxError, ToolError
from sandlot.core.ports.sandbox import Command
from sandlot.core.ports.world import World

_PACKAGES = (
    "at-spi2-core",
    "dbus-x11",
    "fonts-dejavu-core",
    "gir1.2-atspi-2.0",
    "gir1.2-freedesktop",
    "openbox",
    "python3-gi",
    "python3-xlib",
    "xvfb",
)
_SCREEN, _READER = ((Path(__file__).parent / "inside" / name).read_text(encoding="utf-8") for name in ("screen.py", "reader.py"))
_RUN = "/dev/shm/desktop"  # noqa: S108 - in the sandbox; what the desktop writes there is not evidence
_START_S = 45.0
USER, HOME = "ada", "/home/ada"
"""Who the applications run as."""

_SETTINGS = """[Settings]
gtk-cursor-blink=0
gtk-enable-animations=0
gtk-recent-files-enabled=0
gtk-recent-files-max-age=0
gtk-dialogs-use-header=0
"""
_FONTS = f"<fontconfig><dir>/usr/share/fonts</dir><cachedir>{_RUN}/fonts</cachedir></fontconfig>"
_MENU = """<openbox_menu xmlns="http://openbox.org/"><menu id="root-menu" label="Applications">{items}</menu></openbox_menu>"""
_ITEM = '<item label="{label}"><action name="Execute"><command>{command}</command></action></item>'

_PREPARE = f"""
grep -q '^{USER}:' /etc/passwd || echo '{USER}:x:1000:1000::{HOME}:/bin/bash' >> /etc/passwd
grep -q '^{USER}:' /etc/group || echo '{USER}:x:1000:' >> /etc/group
mkdir -p {HOME} {_RUN}/xdg/openbox {_RUN}/xdg/gtk-3.0 /tmp/.X11-unix && chmod 1777 /tmp/.X11-unix
cat > {_RUN}/xdg/gtk-3.0/settings.ini <<'END'
{_SETTINGS}END
cat > {_RUN}/xdg/openbox/menu.xml <<'END'
{{menu}}
END
echo '{_FONTS}' > {_RUN}/fonts.conf
chown -R 1000:1000 {HOME} {_RUN} && chmod 700 {HOME}
"""


def desktop_image(*packages: str, suite: str = "trixie") -> str:
    """The image a desktop needs, with the applications of these Debian packages."""
    return f"debian:{suite}?{','.join(sorted({*_PACKAGES, *packages}))}"


@dataclass(frozen=True)
class Desktop:
    """A desktop as a source of tools: X server, window manager, accessibility, and the applications that the agent may start."""

    applications: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """What can be started, by name: the program and its first arguments."""
    width: int = 1024
    height: int = 768
    screenshots: bool = True
    """True for the tool `desktop_screenshot`; the environment must declare `images`."""

    def __post_init__(self) -> None:
        if not (320 <= self.width <= 3840 and 240 <= self.height <= 2160):
            raise ConfigError(f"a desktop of {self.width} x {self.height}; choose 320 x 240 to 3840 x 2160")
        for name, words in self.applications.items():
            if isinstance(words, str) or not words:
                raise ConfigError(f"application `{name}` is {words!r}; write the program and its arguments as ('mousepad',)")

    def __repr__(self) -> str:
        return f"desktop with {', '.join(self.applications) or 'no applications'}"

    def _prepare_command(self) -> str:
        """A shell command for root: the user, and settings that keep programs from writing what differs from start to start."""
        items = "".join(
            _ITEM.format(label=escape(name, {'"': "&quot;"}), command=escape(" ".join(words)))
            for name, words in self.applications.items()
        )
        return _PREPARE.format(menu=_MENU.format(items=items))

    def _command(self, first_number: int = 1) -> Command:
        """What starts one of the two programs inside; it reads the program first."""
        line = "import json, sys; exec(json.loads(sys.stdin.readline()))"
        env = {
            "HOME": HOME,
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
            "DISPLAY": ":0",
            "XDG_RUNTIME_DIR": f"{_RUN}/run",
            "XDG_CACHE_HOME": f"{_RUN}/cache",
            "XDG_CONFIG_DIRS": f"{_RUN}/xdg:/etc/xdg",
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={_RUN}/run/bus",
            "FONTCONFIG_FILE": f"{_RUN}/fonts.conf",
            "GSETTINGS_BACKEND": "keyfile",
            "GIO_USE_VFS": "local",
            "GIO_USE_VOLUME_MONITOR": "unix",
            "GTK_OVERLAY_SCROLLING": "0",
            "GTK_CSD": "0",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "FIRST_NUMBER": str(first_number),
        }
        return Command(argv=("/usr/bin/python3", "-I", "-B", "-c", line), env=env, user=USER)

    @asynccontextmanager
    async def open(self, world: World) -> AsyncGenerator[Sequence[DesktopTool]]:
        """Start the desktop, yield its tools; everything ends with the context."""
        prepared = await world.exec(self._prepare_command(), check=False)
        if prepared.code:
            raise SandboxError(f"the desktop cannot be prepared: {prepared.stderr[-500:]}")
        async with anyio.create_task_group() as group:

            async def start_reader(first_number: int) -> InsideProgram:
                return await start_program(world, "the tree reader", _READER, self._command(first_number), group)

            program = await start_program(world, "the screen", _SCREEN, self._command(), group)
            applications = {name: tuple(words) for name, words in self.applications.items()}
            screen = DesktopScreen(program, start_reader, (self.width, self.height), applications)
            try:
                await self._start(program)
                yield desktop_tools(screen, screenshots=self.screenshots)
            finally:
                await screen.close()
                group.cancel_scope.cancel()

    async def _start(self, program: InsideProgram) -> None:
        try:
            await program.call("start", most_s=_START_S, width=self.width, height=self.height)
        except (TimeoutError, ToolError) as error:
            why = str(error) or f"no answer within {_START_S:g} s"
            raise SandboxError(f"the desktop did not start: {why}") from error
