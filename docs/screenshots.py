"""The screenshots of the guides: `python docs/screenshots.py`, from the data of `make demo`.

Opens the main pages of `sandlot view` on the demo's training and on its evaluations before and after, in Chromium
(tests/install/chromium.sh installs it), and writes `docs/images/NAME.webp`. Runs the demo first if it has not been run here.
Together the images stay below `_MOST_BYTES`.
"""

import argparse
import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from sandlot.run.results import Run
from sandlot.web.app import serve_view
from sandlot.web.site import Site, link

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from drive.browser import Browser, open_browser  # noqa: E402 - the tests' browser

_IMAGES = ROOT / "docs" / "images"
_WIDTH, _HEIGHT = 1280, 860
_LOW = {"runs": 300}
"""Pages that are mostly empty below this height."""
_MOST_BYTES = 600_000
_SETTLED = "document.readyState === 'complete' && !document.querySelector('[aria-busy=true]')"
_IS_THERE = "document.title.endsWith('sandlot') && !document.title.startsWith('not found')"


def pages_of(runs: Path) -> dict[str, str]:
    """The main pages by name: the list, a run, a task, a rollout, a training, and the review desk."""
    task, rollout = _telling_rollout(Run(runs / "demo"))
    return {
        "runs": "/",
        "run": link("after"),
        "group": link("demo", "group", task=task),
        "trace": link("demo", "trace", task=task, rollout=rollout),
        "training": link("demo", "training"),
        "review": link("after", "review"),
    }


def _telling_rollout(run: Run) -> tuple[str, int]:
    """A rollout with full marks of a task whose rollouts scored differently, as late in the training as there is one."""
    rows = [row for row in run.rows if row.score is not None]
    scores: dict[str, set[float]] = {}
    for row in rows:
        scores.setdefault(row.task, set()).add(row.score or 0.0)
    found = next(row for row in reversed(rows) if len(scores[row.task]) > 1 and row.passed)
    return found.task, found.rollout


async def shoot(browser: Browser, url: str, height: int) -> bytes:
    """The top of a page, as it looks when its script has drawn it."""
    await browser.call("Emulation.setScrollbarsHidden", hidden=True)
    await browser.open(url, _WIDTH)
    await browser.call("Emulation.setDeviceMetricsOverride", width=_WIDTH, height=height, deviceScaleFactor=1, mobile=False)
    with anyio.move_on_after(20):
        while not await browser.evaluate(_SETTLED):  # noqa: ASYNC110 - another process is waited for
            await anyio.sleep(0.1)
    await anyio.sleep(0.5)  # charts are drawn by then
    shot = await browser.call("Page.captureScreenshot", format="webp", quality=80)
    return base64.b64decode(shot["data"])


async def write_all(runs: Path) -> int:
    """Write every image; the exit code."""
    _IMAGES.mkdir(exist_ok=True)
    missing: list[str] = []
    async with serve_view(Site(runs, reader="reader")) as address, open_browser() as browser:
        for name, page in pages_of(runs).items():
            image = await shoot(browser, address(page), _LOW.get(name, _HEIGHT))
            if not await browser.evaluate(_IS_THERE):
                missing.append(name)
                continue
            (_IMAGES / f"{name}.webp").write_bytes(image)
            sys.stdout.write(f"{name}.webp: {len(image):,} bytes\n")
    total = sum(path.stat().st_size for path in _IMAGES.glob("*.webp"))
    if missing or total > _MOST_BYTES:
        sys.stderr.write(f"missing: {missing}; {total:,} bytes together, at most {_MOST_BYTES:,}\n")
        return 1
    return 0


def main() -> int:
    """Run the demo if needed, then write the images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where `demo` is")
    demo = parser.parse_args().runs.resolve() / "demo"
    if not (demo / "summary.json").is_file():
        demo.parent.mkdir(exist_ok=True)
        subprocess.run([sys.executable, ROOT / "recipes" / "demo.py"], check=True, cwd=demo.parent.parent)  # noqa: S603 - our own
    evaluations = sorted(path for path in (demo / "evaluations").iterdir() if path.name.isdecimal())
    with tempfile.TemporaryDirectory(prefix="sandlot-") as folder:
        runs = Path(folder) / "runs"
        runs.mkdir()
        for name, place in {"demo": demo, "before": evaluations[0], "after": evaluations[-1]}.items():
            (runs / name).symlink_to(place)
        os.chdir(folder)  # the commands that pages show are then as a person would type them
        return anyio.run(write_all, Path("runs"))


if __name__ == "__main__":
    sys.exit(main())
