"""MiniWoB's pages: small tasks on one page each, in a real browser.

    miniwob:click-test?seeds=5      one page; each seed is a task
    miniwob:all                     every page that the browser's tools can do, one seed each

The pages and their rewards are MiniWoB's own. Pages that need a mouse at coordinates, or held down, are left out.
"""

from pathlib import Path
from urllib.parse import parse_qsl

from sandlot.apps.browser.browser import BROWSER_IMAGE
from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, write_environment
from sandlot.interop.packages.miniwob_world import SITE, html_folder
from sandlot.interop.packages.requirement import package_licence, package_version, require_package

_PACKAGE = "miniwob"
_TURNS = 30
_MAX_SEEDS = 1000
_COORDINATES = "the mouse must be placed at coordinates, which the browser's tools cannot do"
_DRAGGED = "something must be dragged or selected with the mouse held down, which the browser's tools cannot do"
_NEED_COORDINATES = (
    "bisect-angle chase-circle circle-center draw-circle draw-line find-midpoint hot-cold right-angle "
    "use-colorwheel use-colorwheel-2"
)
_NEED_DRAGGING = (
    "drag-box drag-circle drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers "
    "highlight-text highlight-text-2 moving-items resize-textarea text-editor"
)
_LEFT_OUT = dict.fromkeys(_NEED_COORDINATES.split(), _COORDINATES) | dict.fromkeys(_NEED_DRAGGING.split(), _DRAGGED)
_PROMPT = "Open http://{site}/ and do what the page asks. You have one attempt. Then say done."
_WORLD = '''\
"""MiniWoB's pages in a browser."""

from sandlot.interop.packages.miniwob_world import MiniWobWorld

SOURCES = [MiniWobWorld("{requires}")]
'''
_CHECKS = '''\
"""The page's own reward, without its deduction for time."""

from sandlot import Evidence, Task
from sandlot.interop.packages.miniwob_world import score_of_page


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_page(evidence)
'''


class MiniWobImporter:
    """`miniwob:PAGE` (port `Importer`)."""

    kind = "miniwob"

    def digest(self, source: str) -> str:  # noqa: ARG002 - the source is its name
        """Changes with the package."""
        return package_version(_PACKAGE)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`."""
        requires = f"{_PACKAGE}=={package_version(_PACKAGE)}"
        name, seeds = _read_source(source)
        pages = _pages(name, requires)
        taken = [page for page in pages if page not in _LEFT_OUT]
        tasks = [_task(page, seed) for page in taken for seed in range(seeds)][:limit]
        draft = EnvironmentDraft(
            name=environment_name(f"miniwob-{name}"),
            settings={
                "description": f"{name} of {requires}.",
                "image": BROWSER_IMAGE,
                "tools": [],
                "limits": {"turns": _TURNS, "time_s": 600.0},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={"world.py": _WORLD.format(requires=requires), "checks.py": _CHECKS},
        )
        write_environment(folder, draft)
        licence = package_licence(_PACKAGE)
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=package_version(_PACKAGE),
            tasks=tuple(
                ImportedTask(id=task.id, origin=f"html/miniwob/{task.data['page']}.html", licence=licence) for task in tasks
            ),
            left_out=tuple(LeftOut(what=page, why=_LEFT_OUT[page]) for page in pages if page in _LEFT_OUT),
            notes=(
                "no golden solutions: MiniWoB has none",
                "MiniWoB's limit of 10 s and its deduction for time are left out; its rewards below 0 are worth 0",
                "elements that only a script makes clickable have no reference in snapshots: some pages cannot be solved",
                "the reward is computed in the page that the agent uses, as MiniWoB does it; only the first result counts",
            ),
        )


def _read_source(source: str) -> tuple[str, int]:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    seeds = options.pop("seeds", "1")
    if not name or options or not seeds.isdecimal() or not 1 <= int(seeds) <= _MAX_SEEDS:
        raise ConfigError(f"`{source}`: write `PAGE?seeds=5`, or `all`; at most {_MAX_SEEDS:,} seeds")
    return name, int(seeds)


def _pages(name: str, requires: str) -> list[str]:
    require_package(requires, "miniwob.constants")
    known = sorted(path.stem for path in (html_folder() / "miniwob").glob("*.html"))
    if name == "all":
        return known
    if name not in known:
        raise ConfigError(f"MiniWoB has no page `{name}`; it has: {', '.join(known)}")
    if name in _LEFT_OUT:
        raise ConfigError(f"MiniWoB's page `{name}`: {_LEFT_OUT[name]}")
    return [name]


def _task(page: str, seed: int) -> Task:
    return Task(task_id(f"{page}-{seed}"), prompt=_PROMPT.format(site=SITE), data={"page": page, "seed": seed}, tags=(page,))
