"""What telemetry costs a rollout: `make bench NAME=telemetry`.

The same rollouts (three turns, two tool calls, graded and stored): without telemetry, with metrics served and scraped every
second, with spans sent to a receiver, with rules watched, and with all of it. Figures are CPU-seconds of the process that runs
them, all its threads included; the receiver and the scraper are a process of their own, charged to nobody. A shared machine
changes its speed from minute to minute, so that the variants alternate in one warm process, in another order each round: what
counts is the median over rounds of the difference to the round's own run without telemetry, with its 95 % interval.
"""

import argparse
import http.server
import math
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from report import Report, Row, machine, publish, say

import sandlot
from sandlot.analysis.watch.rules import read_rules
from sandlot.analysis.watch.watch import Watch
from sandlot.observe.events import RunEvent, fan_out
from sandlot.observe.otel import SpanExporter, export_spans
from sandlot.serve.metrics import serve_metrics

NAME = "telemetry"
NOTES = Path(__file__).parents[1] / "tests" / "worlds" / "notes.py"
ROLLOUTS = 400
ROUNDS = 25
SCRAPE_S = 1.0
VARIANTS = {"off": (), "metrics": ("metrics",), "spans": ("spans",), "watch": ("watch",), "all": ("metrics", "spans", "watch")}
SAID = {"metrics": "metrics, scraped every second", "spans": "spans by OTLP", "watch": "four rules watched", "all": "all three"}
RULES = """
[[rule]]
on = "failure_rate"
[[rule]]
on = "stall"
[[rule]]
on = "reward_surge"
[[rule]]
on = "drift"
"""


class _Swallow(http.server.BaseHTTPRequestHandler):
    """Accepts every span and keeps none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@contextmanager
def beside(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """This file in a second process, until the block ends."""
    argv = [sys.executable, __file__, *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def receive() -> None:
    """Be the receiver of spans: print the port, then serve."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Swallow) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def scrape(url: str) -> None:
    """Be the scraper: read the metrics every second, as Prometheus does."""
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
        except (urllib.error.URLError, OSError):
            return
        time.sleep(SCRAPE_S)


@contextmanager
def sink_of(parts: Sequence[str], receiver: str, rules: Path) -> Iterator[Callable[[RunEvent], None]]:
    with ExitStack() as stack:
        sinks: list[Callable[[RunEvent], None]] = []
        if "metrics" in parts:
            served = stack.enter_context(serve_metrics(0))
            stack.enter_context(beside("--scrape", served.url))
            sinks.append(served.receive)
        if "spans" in parts:
            spans = stack.enter_context(export_spans(receiver))
            stack.callback(lambda: require_delivered(spans))
            sinks.append(spans.receive)
        if "watch" in parts:
            sinks.append(stack.enter_context(Watch(read_rules(rules))).receive)
        yield fan_out(*sinks)


def require_delivered(spans: SpanExporter) -> None:
    spans.close()
    assert not spans.num_lost, spans.problem


def run_cpu_ms(parts: Sequence[str], rollouts: int, folder: Path, receiver: str, rules: Path) -> float:
    """CPU-milliseconds per rollout, all of them stored and right."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        started = time.process_time()
        with sink_of(parts, receiver, rules) as sink:
            run = sandlot.run(NOTES, "scripted:golden", rollouts=rollouts, runs=place, sink=sink)
        spent = time.process_time() - started
        assert run.summary().scored == rollouts
        return 1000 * spent / rollouts


def costs(rollouts: int, rounds: int) -> dict[str, list[float]]:
    """CPU-milliseconds per rollout of every variant in every round."""
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as temporary, beside("--receive") as process:
        assert process.stdout is not None
        receiver, folder = f"http://127.0.0.1:{int(process.stdout.readline())}", Path(temporary)
        rules = folder / "rules.toml"
        rules.write_text(RULES)
        for number in range(-1, rounds):  # the first round warms every cache
            for name in Random(number).sample(list(VARIANTS), len(VARIANTS)):
                spent = run_cpu_ms(VARIANTS[name], rollouts, folder, receiver, rules)
                if number >= 0:
                    found[name].append(spent)
            say(f"round {number + 1}: " + ", ".join(f"{name} {each[-1]:.3f}" for name, each in found.items() if each))
    return found


def middle(values: Sequence[float]) -> dict[str, float]:
    """The median with its 95 % interval, by ranks."""
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low = max(0, math.floor(len(ordered) / 2 - reach))
    high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + reach) - 1)
    return {"median": statistics.median(ordered), "low": ordered[low], "high": ordered[high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rollouts, once, and the table is left alone: does it work?")
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scrape", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.receive:
        receive()
    if flags.scrape:
        scrape(flags.scrape)
        return
    where = machine()
    found = costs(*((64, 2) if flags.small else (ROLLOUTS, ROUNDS)))
    off = middle(found["off"])
    more = {name: middle([mine - plain for mine, plain in zip(found[name], found["off"], strict=True)]) for name in SAID}
    rows = [Row("CPU per rollout without telemetry, ms", off["median"])]
    for name, what in SAID.items():
        each = more[name]
        said = f"{each['median']:.3f} ({each['low']:.3f} to {each['high']:.3f}), {each['median'] / off['median']:+.0%}"
        rows.append(Row(f"more with {what}, ms", said))
    ratios = {f"off per {name}": off["median"] / (off["median"] + each["median"]) for name, each in more.items()}
    report = Report(NAME, ours={"off": off, **more}, peers={}, ratios=ratios, rows=rows, machine=where)
    publish(report, write_table=not flags.small)


if __name__ == "__main__":
    main()
