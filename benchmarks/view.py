"""How long a reader waits for a page, and what readers cost a live run: `make bench NAME=view`.

Runs of 10^3 to 10^6 one-turn traces, written as the store seals them, are opened by `sandlot view` in a real Chromium, next to
Inspect's viewer on the same questions and answers at 10^3 and 10^4.

- *First page*: from the start of the navigation until the first task (or sample) can be read, by the browser's own clock, right
  after the server started. *Again*: the same page once more, the best of three.
- *Filtered page*: until only one task (one sample) is left: by address with us, by typing into its filter with Inspect.
- CPU and memory are those of the server process alone, over all of these.

Then a live run of 4,096 rollouts, with no reader and with five readers on its page.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
from peers import INSPECT, ready
from report import Report, Row, machine, measure, plain_environment, publish, say
from store import fill_ours
from yarl import URL

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from drive.browser import Browser, open_browser  # noqa: E402 - the tests' browser

NAME = "view"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PEER_SIZES = (1_000, 10_000)
LOOKS = 3
READERS = 5
ROLLOUTS, AT_ONCE = 4096, 512
PATIENT = HERE / "environments" / "patient.py"
LOG = "2026-01-01T00-00-00-00-00_task_view.eval"
SHOWN = """new Promise(done => {
  const look = () => document.body?.innerText.includes(WANTED) ? done(performance.now()) : setTimeout(look, 5);
  look();
})"""


# -- servers -----------------------------------------------------------------------------------------------------------


class Server:
    """A viewer as a process, with what it has used so far."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self._process, self.address = process, address

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000


@contextmanager
def serving(argv: list[str | Path], marker: str) -> Iterator[Server]:
    """A server that prints a line with its address when it is ready."""
    words = [str(word) for word in argv]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plain_environment())
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if marker in line)
        yield Server(process, "http://" + line.partition("http://")[2].split()[0])
    finally:
        process.kill()
        process.wait()


def our_server(runs: Path) -> Any:
    argv = [sys.executable, "-m", "sandlot", "view", "--no-browser", "--runs", runs]
    return serving(argv, "http://")


def address_of(server: Server, page: str) -> str:
    """The address of a page, with the token of the printed one."""
    return str(bare_address(server, page) % URL(server.address).query)


def bare_address(server: Server, page: str) -> URL:
    """The address of a page without the token: below the random path of the printed one."""
    printed = URL(server.address)
    return printed.with_path(printed.path.rstrip("/") + page, encoded=True)


# -- pages -------------------------------------------------------------------------------------------------------------


async def shown_ms(browser: Browser, url: str, wanted: str) -> float:
    """Milliseconds from the start of the navigation until this text can be read."""
    await browser.call("Page.navigate", url="about:blank")
    await browser.call("Page.navigate", url=url)
    return await browser.evaluate(SHOWN.replace("WANTED", json.dumps(wanted)))


async def look_ours(runs: Path, name: str, count: int) -> dict[str, float]:
    with our_server(runs) as server:
        idle = server.cpu_s
        async with open_browser() as browser:
            await browser.call("Page.navigate", url=address_of(server, "/static/view.css"))  # the token becomes a cookie
            first = await shown_ms(browser, address_of(server, f"/run/{name}"), "task-0")
            again = min([await shown_ms(browser, address_of(server, f"/run/{name}"), "task-0") for _ in range(LOOKS)])
            one = f"task-{count // 8 - 1}"
            bare = bare_address(server, f"/run/{name}")
            filtered = min([await shown_ms(browser, str(bare % {"task": one}), one) for _ in range(LOOKS)])
        return figures(server, idle, first, again, filtered)


async def look_inspect(logs: Path) -> dict[str, float]:
    command = [INSPECT.bin("inspect"), "view", "start", "--log-dir", logs, "--port", str(7600 + os.getpid() % 300)]
    with serving(command, "Running on") as server:
        idle = server.cpu_s
        page = f"{server.address}/#/logs/{LOG}/samples"
        async with open_browser() as browser:
            first = await shown_ms(browser, page, "task-0-3")
            again, filtered = [], []
            for _ in range(LOOKS):
                again.append(await shown_ms(browser, page, "task-0-3"))
                await browser.evaluate("document.querySelector('.cm-content').focus()")
                typed = await browser.evaluate("performance.now()")
                await browser.call("Input.insertText", text='id == "task-77-3"')
                filtered.append(await browser.evaluate(SHOWN.replace("WANTED", json.dumps("1 row\n"))) - typed)
        return figures(server, idle, first, min(again), min(filtered))


def figures(server: Server, idle_s: float, first: float, again: float, filtered: float) -> dict[str, float]:
    return {
        "first_ms": round(first, 1),
        "again_ms": round(again, 1),
        "filtered_ms": round(filtered, 1),
        "server_cpu_s": round(server.cpu_s - idle_s, 2),
        "server_peak_mb": round(server.peak_mb, 1),
    }


def make_run(folder: Path, name: str, count: int) -> None:
    """A run of that many traces, with the manifest of a real one."""
    import sandlot

    fill_ours(folder / name, count)
    real = sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=folder / "real")
    manifest = json.loads((real.path / "manifest.json").read_bytes())
    (folder / name / "manifest.json").write_text(json.dumps(manifest | {"num_rollouts": count, "run": name}))
    shutil.rmtree(folder / "real")


async def pages(sizes: tuple[int, ...], peer_sizes: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="sandlot-view-") as temporary:
            folder, name = Path(temporary), f"run-{count}"
            await anyio.to_thread.run_sync(make_run, folder, name, count)
            ours[str(count)] = await look_ours(folder, name, count)
            say(f"sandlot {count:,}: {ours[str(count)]}")
            if count in peer_sizes:
                logs = folder / "logs"
                logs.mkdir()
                command = [INSPECT.bin("python"), HERE / "view_inspect.py", logs / LOG, str(count)]
                subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                theirs[str(count)] = await look_inspect(logs)
                say(f"inspect {count:,}: {theirs[str(count)]}")
    return ours, theirs


# -- a live run --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def read_by(readers: int, runs: Path, name: str) -> AsyncGenerator[dict[str, float]]:
    """So many readers on the page of a live run, each as its scripts behave: the page, its stream, its state every 2 s."""
    seen = {"events": 0, "orders": 0, "server_cpu_s": 0.0}

    async def follow(session: aiohttp.ClientSession, server: Server) -> None:
        async with session.get(bare_address(server, f"/run/{name}/live")) as answer:
            async for _ in answer.content:
                seen["events"] += 1

    async def ask(session: aiohttp.ClientSession, server: Server) -> None:
        address = bare_address(server, f"/run/{name}/control")
        while True:
            async with session.post(address, json={"do": "status"}, headers={"Origin": str(address.origin())}) as answer:
                seen["orders"] += answer.status == 200
            await anyio.sleep(2)

    async def read(server: Server) -> None:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=aiohttp.ClientTimeout(total=None)
        ) as session:
            while not (runs / name / "manifest.json").exists():
                await anyio.sleep(0.1)
            async with session.get(URL(address_of(server, f"/run/{name}"), encoded=True)) as answer:
                assert answer.status == 200, await answer.text()
            async with anyio.create_task_group() as group:
                group.start_soon(follow, session, server)
                group.start_soon(ask, session, server)

    if not readers:
        yield seen
        return
    with our_server(runs) as server:
        async with anyio.create_task_group() as group:
            for _ in range(readers):
                group.start_soon(read, server)
            yield seen
            seen["server_cpu_s"] = server.cpu_s
            group.cancel_scope.cancel()


async def live(rollouts: int, at_once: int, rounds: int) -> dict[str, Any]:
    found: dict[int, list[float]] = {0: [], READERS: []}
    seen: dict[str, float] = {}
    for _ in range(rounds):
        for readers, spent in found.items():
            with tempfile.TemporaryDirectory(prefix="sandlot-view-") as temporary:
                runs = Path(temporary)
                words = ["run", PATIENT, "-m", "scripted:golden", "--group", str(rollouts // 64), "--at-once", str(at_once)]
                argv = [sys.executable, "-m", "sandlot", *words, "--run", runs / "going", "--json"]
                async with read_by(readers, runs, "going") as these:
                    done = await anyio.to_thread.run_sync(lambda argv=argv: measure(argv))
                assert json.loads(done.stdout.splitlines()[-1])["scored"] == rollouts
                spent.append(done.cpu_s)
                seen = these if readers else seen
                say(f"live, {readers} readers: {done.cpu_s:.2f} CPU-s, {done.wall_s:.1f} s; {these}")
    return {
        "rollouts": rollouts,
        "alone_cpu_ms_per_rollout": 1000 * min(found[0]) / rollouts,
        "read_cpu_ms_per_rollout": 1000 * min(found[READERS]) / rollouts,
        "readers": READERS,
        **seen,
    }


# -- report ------------------------------------------------------------------------------------------------------------


def rows_of(ours: dict[str, Any], theirs: dict[str, Any], run: dict[str, Any]) -> list[Row]:
    lines = {
        "first_ms": "first page, ms",
        "again_ms": "again, ms",
        "filtered_ms": "filtered page, ms",
        "server_cpu_s": "CPU-seconds of the server",
        "server_peak_mb": "peak memory of the server, MB",
    }
    rows = [
        Row(f"{int(size):,} traces: {what}", found[name], {"inspect": theirs[size][name]} if size in theirs else {})
        for size, found in ours.items()
        for name, what in lines.items()
    ]
    more = run["read_cpu_ms_per_rollout"] / run["alone_cpu_ms_per_rollout"] - 1
    return [
        *rows,
        Row(f"live run of {run['rollouts']:,} rollouts: CPU per rollout, no reader, ms", run["alone_cpu_ms_per_rollout"]),
        Row(f"the same with {run['readers']} readers, ms ({more:+.1%})", run["read_cpu_ms_per_rollout"]),
        Row("CPU-seconds of the viewer meanwhile", run["server_cpu_s"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few traces, ours only, and the table is left alone: does it work?")
    parser.add_argument("--skip-peers", action="store_true", help="ours only; the table is left alone")
    flags = parser.parse_args()
    where = machine()
    peer_sizes = () if flags.small or flags.skip_peers else PEER_SIZES
    if peer_sizes:
        ready(INSPECT)
    started = time.monotonic()
    ours, theirs = anyio.run(pages, (800,) if flags.small else SIZES, peer_sizes)
    run = anyio.run(live, 128, 64, 1) if flags.small else anyio.run(live, ROLLOUTS, AT_ONCE, 3)
    say(f"measured in {time.monotonic() - started:.0f} s")
    ratios = {
        f"{name} at {size} vs inspect": theirs[size][name] / ours[size][name]
        for size in theirs
        for name in ("first_ms", "again_ms", "filtered_ms", "server_peak_mb")
    }
    report = Report(
        NAME,
        ours={"pages": ours, "live": run},
        peers={"inspect": {"version": INSPECT.requirements[0], "pages": theirs}} if theirs else {},
        ratios={name: round(value, 2) for name, value in ratios.items()},
        rows=rows_of(ours, theirs, run),
        machine=where,
    )
    publish(report, write_table=bool(theirs))


if __name__ == "__main__":
    main()
