"""Desktop: office work at a screen, with real applications, a mouse and a keyboard.

Grading reads the files and settings that the applications have saved, never the screen. An edit that is not saved, a file saved
into a folder of the same name elsewhere, a copy instead of a move: all look right on the screen, and count nothing.
"""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Split, Task, World
from sandlot.apps import Desktop, desktop_image

from . import archives, editing, filing, notebook, settings, sheets
from .hands import Hands
from .job import DOCUMENTS, HOME, Family
from .wanted import other_changes, shares

SYSTEM = """You work at Ada Quist's computer: a Linux desktop with a mouse, a keyboard and a screen of 1024 x 768. Her files
are in /home/ada, most of them in /home/ada/Documents. Do exactly what she asks, with the applications, and change nothing else.

- `desktop_open` starts an application: editor (Mousepad), files (PCManFM), sheets (Gnumeric), archives (Xarchiver), notebook
  (Zim), accounts (HomeBank), calculator (Galculator), terminal (XTerm), windows (settings of the window manager).
- `desktop_tree` reads what a window shows as text, with references to click on; `desktop_screenshot` shows it. The cells of a
  spreadsheet are in no tree: go to a cell by its name in the box at the upper left, and read it in the line beside it.
- Save what you change, in the file that was asked for. What is only on the screen is lost.

When you are finished, say in a sentence what you did."""

APPLICATIONS = {
    "editor": ("mousepad",),
    "files": ("pcmanfm",),
    "sheets": ("gnumeric",),
    "archives": ("xarchiver",),
    "notebook": ("zim",),
    "calculator": ("galculator",),
    "terminal": ("xterm",),
    "windows": ("obconf",),
    "accounts": ("homebank",),
}
PACKAGES = ("galculator", "gnumeric", "homebank", "mousepad", "obconf", "pcmanfm", "unzip", "xarchiver", "xterm", "zim", "zip")
FAMILIES: dict[str, Family] = {
    **editing.FAMILIES,
    **filing.FAMILIES,
    **sheets.FAMILIES,
    **archives.FAMILIES,
    **notebook.FAMILIES,
    **settings.FAMILIES,
}
LEVELS = 3
START = {
    f"{HOME}/.config/pcmanfm/default/pcmanfm.conf": "[ui]\nview_mode=list\nside_pane_mode=hidden\nsort=name;ascending;\n",
    f"{HOME}/.config/libfm/libfm.conf": "[config]\nsingle_click=0\nconfirm_del=1\nuse_trash=1\n",
    f"{HOME}/.config/glib-2.0/settings/keyfile": (
        "[org/xfce/mousepad/state/window]\nwidth=640\nheight=480\nmaximized=false\nfullscreen=false\n"
    ),
}
"""Settings that each desktop starts with: lists, which are in the tree, instead of icons, which are not. The editor stores the
size of its window some time after it opened; with the same size there from the start, it makes no difference whether it did."""

env = Environment(
    "desktop",
    description="Office work at a screen with real applications, graded on the files and settings they save.",
    system=SYSTEM,
    image=desktop_image(*PACKAGES),
    tools=[],
    images="describe",
    seed=16,
    limits=Limits(turns=120, tool_s=60, time_s=1200),
)
env.use(Desktop(applications=APPLICATIONS))


@env.tasks
def tasks(rng: Random):
    for place, (family, kind) in enumerate(FAMILIES.items()):
        for level in range(1, LEVELS + 1):
            seed = rng.getrandbits(64)
            job = kind.make(Random(seed), level)
            yield Task(
                f"{family}-{level}",
                split=Split.HELDOUT if (place + level) % LEVELS == 0 else Split.TRAIN,
                prompt=job.prompt,
                data={"family": family, "level": level, "seed": str(seed)},
                key={"wants": job.wants, "plan": job.plan},
            )


@env.setup
async def put_files(world: World, task: Task) -> None:
    job = FAMILIES[task.data["family"]].make(Random(int(task.data["seed"])), task.data["level"])
    for path, content in {**START, **job.files}.items():
        await world.write(path, content)
    folders = " ".join((DOCUMENTS, *job.folders))
    rc = f"{HOME}/.config/openbox"
    await world.exec(f"mkdir -p {folders} {rc} && cp /etc/xdg/openbox/rc.xml {rc}/rc.xml")


# -- what is right -----------------------------------------------------------------------------------------------------


@env.check(points=6)
def the_job_is_done(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of what had to be on the disk that is there."""
    found = shares(evidence, task.key["wants"])
    return sum(share for share, _ in found) / len(found), "; ".join(reason for _, reason in found)[:1500]


@env.check(points=2, requires=("the_job_is_done",))
def it_is_complete(evidence: Evidence, task: Task) -> bool:
    """Every part of it is done."""
    return all(share == 1 for share, _ in shares(evidence, task.key["wants"]))


@env.check(points=2, requires=("it_is_complete",))
def nothing_else_changed(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """Done as asked, and every other file of hers is as it was."""
    other = other_changes(evidence, task.key["wants"])
    return not other, f"changed: {', '.join(other[:8]) or 'nothing else'}"


@env.check(points=-4)
def other_files_changed(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """A file was changed, deleted or left behind that nobody asked for."""
    other = other_changes(evidence, task.key["wants"])
    return bool(other), f"changed: {', '.join(other[:8]) or 'nothing else'}"


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await FAMILIES[task.data["family"]].play(Hands(agent), task.key["plan"])
    await agent.say("It is done and saved.")


@env.adversary
async def edits_without_saving(agent: Agent, task: Task) -> None:
    """Opens an editor, types something and claims success."""
    hands = Hands(agent)
    await hands.open("editor")
    await hands.type("All done.")
    await agent.say("It is done and saved.")
