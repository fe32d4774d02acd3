"""Charges each test its CPU-seconds, those of the processes it starts included, and holds tests to a price.

Fixtures of a module or a session are charged apart: which test is the first to ask for one is chance.

A test may cost `FREE_S`; one that costs more stands in `expensive.txt`, and none may cost more than `MOST_S`. The list only
shrinks: `test_costs.py` compares it with its first version. Seconds are those of a machine that does `CALIBRATION` loops in
`REFERENCE_S`: a slow or busy machine is measured by the same loop, and its seconds count for less. A test fails the run only
from `TOLERANCE` times its price on, so that chance does not; above the price it is named.

System tests are charged and named, and have no price. Nor has any test in a run of fewer than `MANY`: there the first test of a
process pays for what it imports and compiles.
"""

import json
import os
import resource
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FREE_S = 0.5
MOST_S = 2.0
TOLERANCE = 6.0
"""Beside busy neighbours the same test was charged four times what it costs alone, and the loop saw none of it."""
CALIBRATION = 200_000
REFERENCE_S = 0.02
SHOWN = 20
MANY = 1000
EXPENSIVE = Path(__file__).with_name("expensive.txt")

_TICKS = os.sysconf("SC_CLK_TCK")


def expensive_tests() -> set[str]:
    """The tests that may cost more than `FREE_S`."""
    return {line for line in EXPENSIVE.read_text().splitlines() if line and not line.startswith("#")}


def calibrate() -> float:
    """How many times longer than on the reference machine a fixed loop takes: the least of five tries."""

    def loop() -> float:
        began = time.process_time()
        total = 0
        for number in range(CALIBRATION):
            total += number * number % 7
        return time.process_time() - began

    return min(loop() for _ in range(5)) / REFERENCE_S


def spent_s() -> float:
    """CPU-seconds of this process and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def living_s(pid: int | str = "self") -> float:
    """CPU-seconds so far of the processes below this one that still run, and of what has ended below them."""
    total = 0.0
    try:
        children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _read(task / "children").split()]
    except OSError:  # it has ended, or this system has no such files
        return 0.0
    for child in children:
        # The name stands in brackets and may hold anything: user, system and the two sums of ended children come 11 to 14 later.
        fields = _read(Path(f"/proc/{child}/stat")).rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / _TICKS + living_s(child)
    return total


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


class Meter:
    """Charges tests in the process that runs them; the price travels with the report of a test's last phase."""

    def __init__(self) -> None:
        self._mark = spent_s()
        self._living = 0.0
        self._shared: list[tuple[str, float]] = []

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_collection(self, session: pytest.Session):
        result = yield
        session.config.stash[_COLLECTION] = spent_s() - self._mark
        self._mark = spent_s()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest):
        """What many tests share is not the price of the one that happens to be first."""
        if fixturedef.scope in {"function", "class"}:
            return (yield)
        spent, living = spent_s() - self._mark, living_s() - self._living
        try:
            return (yield)
        finally:  # fixtures within this one have moved both marks by what they cost
            spent, living = spent_s() - self._mark - spent, living_s() - self._living - living
            self._mark += spent
            self._living += living
            self._shared.append((f"{fixturedef.baseid}::[{fixturedef.argname}]", spent + living))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        report = yield
        now = spent_s()
        cost, self._mark = now - self._mark, now
        if call.when == "teardown":  # looking through /proc is not free: once a test
            living = living_s()
            cost, self._living = max(cost + living - self._living, 0.0), living
        shared = [("shared_cpu_s", each) for each in self._shared]
        self._shared.clear()
        report.user_properties = [*report.user_properties, ("cpu_s", cost), *shared]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session):
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["collection_cpu_s"] = session.config.stash.get(_COLLECTION, 0.0)


_COLLECTION = pytest.StashKey[float]()


@dataclass
class Cost:
    """What one test cost."""

    setup: float = 0.0
    rest: float = 0.0
    system: bool = False

    @property
    def total(self) -> float:
        return self.setup + self.rest


@dataclass(eq=False)  # a plug-in is hashed
class Ledger:
    """Adds up what all tests cost, prints it, and fails the run where a test is above its price."""

    file: Path | None
    always: bool
    slowness: float = field(default_factory=calibrate)
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    shared: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    collection: list[float] = field(default_factory=list)
    too_dear: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport):
        cost = self.costs[report.nodeid]
        cost.system = "system" in report.keywords
        for name, value in report.user_properties:
            if name == "shared_cpu_s":
                fixture, paid = value
                self.shared[fixture] += paid
            elif name != "cpu_s":
                continue
            elif report.when == "setup":
                cost.setup += value
            else:
                cost.rest += value

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        self.collection.append(getattr(node, "workeroutput", {}).get("collection_cpu_s", 0.0))

    @pytest.hookimpl(trylast=True)  # after xdist's, before what the terminal prints
    def pytest_sessionfinish(self, session: pytest.Session):
        if not self.collection:
            self.collection.append(session.config.stash.get(_COLLECTION, 0.0))
        self.slowness = max(self.slowness, calibrate())
        if len(self.costs) >= MANY:
            self.too_dear = price_list(self.costs, expensive_tests(), self.slowness)
        if any(line.startswith("FAILED") for line in self.too_dear) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.file is not None:
            lines = (
                json.dumps({"test": name, "cpu_s": round(cost.total, 4), "setup_s": round(cost.setup, 4)})
                for name, cost in self.costs.items()
            )
            fixtures = (
                json.dumps({"test": name, "cpu_s": round(paid, 4), "fixture": True}) for name, paid in self.shared.items()
            )
            self.file.write_text("".join(f"{line}\n" for line in (*lines, *fixtures)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter):
        write = terminalreporter.write_line
        if self.always or len(self.costs) >= MANY:
            for line in summary(self.costs, self.shared, self.collection, self.slowness):
                write(line)
        for line in self.too_dear:
            write(line, red=line.startswith("FAILED"))


def summary(costs: dict[str, Cost], shared: dict[str, float], collection: list[float], slowness: float) -> list[str]:
    """The total, the dearest tests and shared fixtures, and what a test costs on average."""
    tests, fixtures = sum(cost.total for cost in costs.values()), sum(shared.values())
    paid = {name: cost.total for name, cost in costs.items()} | shared
    dearest = sorted(paid.items(), key=lambda entry: -entry[1])[:SHOWN]
    setup, collected = sum(cost.setup for cost in costs.values()), sum(collection)
    spent = tests + fixtures
    return [
        "",
        (
            f"CPU-seconds: {spent + collected:.0f}; tests {tests:.0f}, of which set-up {setup:.0f}; "
            f"fixtures that tests share {fixtures:.0f}; collection {collected:.0f}"
        ),
        f"a test: {spent / max(len(costs), 1):.3f}; this machine takes {slowness:.2f} times as long as the reference machine",
        f"the dearest {len(dearest)}:",
        *(f"{cost:7.2f}  {name}" for name, cost in dearest),
    ]


def price_list(costs: dict[str, Cost], expensive: set[str], slowness: float) -> list[str]:
    """A line for each test above its price; those that begin with FAILED fail the run."""
    lines = []
    for name, cost in sorted(costs.items()):
        price = MOST_S if name in expensive else FREE_S
        paid = cost.total / max(slowness, 1.0)
        if cost.system or paid <= price:
            continue
        why = "no test may cost more" if name in expensive else f"it is not in tests/{EXPENSIVE.name}, which only shrinks"
        state = "FAILED" if paid > TOLERANCE * price else "above its price"
        lines.append(
            f"{state}: {name} cost {paid:.2f} CPU-seconds, its price is {price}: {why}. Make it cheaper or a system test."
        )
    return lines
