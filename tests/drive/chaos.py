"""Chaos: things of a run die at random while it goes on, and in the end its books must balance.

What can die is a `Mortal`: the command itself, its worker processes, their sandboxes, workers that join, servers of the model.
`harass` does something to one of them every few moments until the time is up, and then only looks after them until the command
has an end. `books_balance` holds for any run, whatever was done to it.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Protocol

from drive.command_line import environ
from drive.ports import free_port
from sandlot import Run
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import INFRASTRUCTURE, End, Side
from sandlot.run.collector import LOST, MOST_LOST, RETURNED, is_lost_worker
from worlds.executors import joining

CHAOS_S = float(os.environ.get("CHAOS_S", "8"))
IS_LONG = CHAOS_S >= 120
"""True if there is time for what takes a minute, such as a worker that is silent for too long."""
FEWEST = 3
"""Harms that are done even if the time is up, while the command goes on."""
TOKEN = {"SANDLOT_WORKER_TOKEN": "of the workers that live in chaos"}


class Mortal(Protocol):
    """Something that a run needs, and that dies."""

    def harm(self, random: Random) -> str | None:
        """Do something to it, and say what; None if there is nothing to do it to."""
        ...

    def tend(self) -> None:
        """Do what its keeper does at every moment: start again what has died."""
        ...

    def close(self) -> None:
        """End it for good."""
        ...


def kill(pid: int, how: int = signal.SIGKILL) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, how)
        return True
    return False


def children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def commanded(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def started_at(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty if it has ended."""
    with suppress(OSError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else rest[18]
    return ""


def below(marker: str) -> list[int]:
    """Every process that was started with this in its environment, and what those started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


class Command:
    """A command that is killed at most so many times, and repeated each time: it continues."""

    def __init__(self, words: Sequence[object], place: Path, *, most: int = 3, refused: str = "", **variables: str) -> None:
        """`place` is the run directory that it writes.

        It is repeated if it ends incomplete (3), if so much died that it stops as broken (1), or if it says `refused` (2).
        """
        self._refused, self._place = refused, place
        self.words, self.folder, self.most = [*map(str, words), "--run", str(place)], place.parent, most
        folder = self.folder
        self.marker = f"CHAOS={folder}"
        self.scratch = folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.variables = environ(**{"CHAOS": str(folder), "TMPDIR": str(self.scratch), **TOKEN, **variables})
        self.num_killed = 0
        self.num_repeated = 0
        """Restarts after it ended by itself."""
        self.started: set[tuple[int, str]] = set()
        """Processes without the marker that belong to it, with the time of their start."""
        self._log, self.said = place / "events.jsonl", folder / "stderr"
        self.start()

    @property
    def is_under_way(self) -> bool:
        """True when a rollout has ended since it was started."""
        return self._log.exists() and b'"rollout_ended"' in self._log.read_bytes()[self._seen :]

    @property
    def num_ended(self) -> int:
        """Rollouts that have ended so far."""
        return self._log.read_bytes().count(b'"rollout_ended"') if self._log.exists() else 0

    def start(self) -> None:
        self._seen = self._log.stat().st_size if self._log.exists() else 0
        command = [sys.executable, "-m", "sandlot", *self.words]
        with self.said.open("w") as said:
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=subprocess.DEVNULL, stderr=said)

    def harm(self, random: Random) -> str | None:
        if self.num_killed >= self.most or not self.is_under_way:
            return None
        self.process.kill()
        self.process.wait()
        self.num_killed += 1
        self.start()
        return "the command killed"

    def tend(self) -> None:
        if self._ends_for_now:
            self.num_repeated += 1
            assert self.num_repeated < 200, self.said.read_text()[-2000:]
            self.start()

    @property
    def _ends_for_now(self) -> bool:
        match self.process.poll():
            case 3:
                return True
            case 1:  # also the exit code of a complete run in which a rollout failed
                return Run(self._place).verdict == "stopped"
            case 2:
                return bool(self._refused) and self._refused in self.said.read_text()
            case _:
                return False

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None and not self._ends_for_now

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class OwnWorkers:
    """The worker processes that a run starts by itself."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._seen = 0

    @property
    def pids(self) -> list[int]:
        return [pid for pid in children(self.command.process.pid) if "executors.worker" in commanded(pid)]

    def harm(self, random: Random) -> str | None:
        """Most often after a rollout has ended: on a busy machine they would otherwise die faster than they start."""
        ended = self.command.num_ended
        if ended == self._seen and random.random() < 0.99:  # it is asked twenty times a second
            return None
        self._seen, pids = ended, self.pids
        return "a worker killed" if pids and kill(random.choice(pids)) else None

    def tend(self) -> None: ...
    def close(self) -> None: ...


class Sandboxes:
    """The sandboxes of worker processes, and at times the process that starts them all."""

    def __init__(self, workers: OwnWorkers) -> None:
        self.workers = workers

    def _find(self) -> tuple[list[int], list[int]]:
        zygotes = [child for pid in self.workers.pids for child in children(pid) if "zygote" in commanded(child)]
        return zygotes, [child for pid in zygotes for child in children(pid)]

    def harm(self, random: Random) -> str | None:
        zygotes, sandboxes = self._find()
        if random.random() < 0.2:
            return "a zygote killed" if zygotes and kill(random.choice(zygotes)) else None
        return "a sandbox killed" if sandboxes and kill(random.choice(sandboxes)) else None

    def tend(self) -> None:
        """Note what runs: it is started with an empty environment, so nothing in it says whose it is."""
        for pid in chain(*self._find()):
            if since := started_at(pid):
                self.workers.command.started.add((pid, since))

    def close(self) -> None: ...


class Wire:
    """A port whose connections go on to another one, and can be cut."""

    def __init__(self, to: int) -> None:
        self._to, self._open, self._carriers = to, list[socket.socket](), list[threading.Thread]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *given: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=given, daemon=True)
        thread.start()
        self._carriers.append(thread)
        return thread

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                self._open = [*(end for end in self._open if end.fileno() >= 0), near, far]
                self._start(self._join, near, far)

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        there = self._start(_carry, near, far)
        _carry(far, near)
        there.join()
        near.close()
        far.close()

    def cut(self) -> bool:
        """Break every connection, in the middle of a message and without a goodbye."""
        was_open = self.is_open
        for end in self._open:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
        return was_open

    @property
    def is_open(self) -> bool:
        return any(end.fileno() >= 0 for end in self._open)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._carriers[0].join()
        self.cut()
        for carrier in self._carriers[1:]:
            carrier.join()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for end, how in ((one, socket.SHUT_RD), (other, socket.SHUT_WR)):
        with suppress(OSError):
            end.shutdown(how)


class Kept:
    """A process that its keeper starts again, and continues if it was stopped."""

    def __init__(self, start: Callable[[], subprocess.Popen]) -> None:
        self._start = start
        self.process = start()
        self._wakes = 0.0

    @property
    def is_awake(self) -> bool:
        return self.process.poll() is None and not self._wakes

    def stop(self, seconds: float) -> None:
        """It stands still for so long."""
        self.process.send_signal(signal.SIGSTOP)
        self._wakes = time.monotonic() + seconds

    def tend(self) -> None:
        if self._wakes and time.monotonic() >= self._wakes:
            self._wakes = 0.0
            self.process.send_signal(signal.SIGCONT)
        if self.process.poll() is not None:
            self._wakes = 0.0
            self._end()
            self.process = self._start()

    def _end(self) -> None:
        self.process.kill()
        with self.process:
            if self.process.stdin is not None:
                self.process.stdin.close()

    def close(self) -> None:
        self._end()


def _stand_still(kept: Kept, random: Random, long_s: float) -> str:
    seconds = long_s if IS_LONG and random.random() < 0.2 else random.uniform(0.5, 2)
    kept.stop(seconds)
    return f"stopped for {'a minute' if seconds > 2 else 'a moment'}"


class JoinedWorkers:
    """Workers that join a run: they die, leave in order, stand still, and lose their connection."""

    def __init__(self, command: Command, port: int, count: int) -> None:
        self._wires = [Wire(port) for _ in range(count)]
        self._kept = [Kept(lambda wire=wire: self._join(command, wire)) for wire in self._wires]

    @staticmethod
    def _join(command: Command, wire: Wire) -> subprocess.Popen:
        words = joining(wire.port, "--at-once", 4, "--wait-s", 600, "--grace-s", 0.2, "--json")
        return subprocess.Popen(words, cwd=command.folder, env=command.variables, stdout=subprocess.DEVNULL)

    def harm(self, random: Random) -> str | None:
        awake = [number for number, kept in enumerate(self._kept) if kept.is_awake and self._wires[number].is_open]
        if not awake:
            return None
        number = random.choice(awake)
        kept = self._kept[number]
        match random.choice(("kill", "leave", "stop", "cut")):
            case "kill":
                kept.process.kill()
                return "a joined worker killed"
            case "leave":
                kept.process.terminate()
                return "a joined worker left"
            case "stop":
                return f"a joined worker {_stand_still(kept, random, 80)}"
            case _:
                return "a connection cut" if self._wires[number].cut() else None

    def tend(self) -> None:
        for kept in self._kept:
            kept.tend()

    def close(self) -> None:
        for each in (*self._kept, *self._wires):
            each.close()


class Replicas:
    """Servers of one model, `sandlot serve`, each with a port that it has again when it is started again."""

    def __init__(self, folder: Path, count: int) -> None:
        self.ports = [free_port() for _ in range(count)]
        self._folder = folder
        self._kept = [Kept(lambda port=port: self._serve(port)) for port in self.ports]

    def _serve(self, port: int) -> subprocess.Popen:
        words = ["serve", "--model", "rookie", "--port", str(port), "--kv-gib", "0.1", "--until-eof"]
        return subprocess.Popen(
            [sys.executable, "-m", "sandlot", *words],
            cwd=self._folder,
            env=environ(CHAOS=str(self._folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    @property
    def model(self) -> str:
        return f"sandlot:rookie@{','.join(f'http://127.0.0.1:{port}' for port in self.ports)}"

    def wait(self) -> None:
        """Until all of them listen."""
        while not all(map(_listens, self.ports)):
            time.sleep(0.1)

    def harm(self, random: Random) -> str | None:
        awake = [kept for port, kept in zip(self.ports, self._kept, strict=True) if kept.is_awake and _listens(port)]
        if not awake:
            return None
        kept = random.choice(awake)
        if random.random() < 0.3:
            return f"a server {_stand_still(kept, random, 20)}"
        kept.process.kill()
        return "a server killed"

    def tend(self) -> None:
        for kept in self._kept:
            kept.tend()

    def close(self) -> None:
        for kept in self._kept:
            kept.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Harm:
    """What was done to a command."""

    done: Counter[str]
    seconds: float
    """How long it went on."""


def harass(
    command: Command, others: Sequence[Mortal], random: Random, seconds: float, pace: tuple[float, float] = (0.3, 1.5)
) -> Harm:
    """Do harm for so long, from the first rollout on, and look after all until the command has an end."""
    done: Counter[str] = Counter()
    mortals: list[Mortal] = [command, *others]
    began = ended = due = 0.0
    try:
        while not command.is_over:
            for each in mortals:
                each.tend()
            now = time.monotonic()
            if not began and command.is_under_way:
                began = ended = now
                due = now + random.uniform(0.3, 1.5)  # soon, whatever the pace: a run may be short
            is_time = now < began + seconds or done.total() < FEWEST  # on a busy machine little happens in a moment
            if began and due <= now and is_time:
                # The command itself is one of many: its death ends all that it has, and starting it again takes long.
                each = command if not others or random.random() < 0.1 else random.choice(others)
                what = each.harm(random)
                if what is not None:
                    done[what] += 1
                    ended, due = now, now + random.uniform(*pace)
            time.sleep(0.05)
    finally:
        for each in reversed(mortals):
            each.close()
    return Harm(done, ended - began)


def books_balance(stored: Run, *, num_restarts: int, sides: Mapping[Side, frozenset[str]] | None = None) -> str:
    """Every rollout is there once, every attempt is counted, a failure has its side and no reward; a line of figures.

    `sides` are the kinds of failures that what was killed may leave, besides workers that died.
    """
    sides = {Side.HARNESS: frozenset({LOST, RETURNED}), **(sides or {})}
    traces = list(stored)
    assert stored.verdict == "complete"
    assert len(traces) == len({trace.key for trace in traces}) == stored.manifest.num_rollouts, "lost or doubled"
    attempts: Counter[str] = Counter()
    for trace in traces:
        for attempt in trace.attempts:
            assert attempt.outcome.kind in sides[attempt.outcome.side], attempt.outcome
            attempts[f"{attempt.outcome.side.value} {attempt.outcome.kind}"] += 1
        if isinstance(trace.outcome, Failed):
            _require_told(trace, trace.outcome, sides)
        else:
            assert isinstance(trace.outcome, Scored), trace.outcome
            assert trace.end is not End.CUT, "a score of what was cut short"
        for file in trace.evidence.files.values() if trace.evidence else ():
            assert len(stored.reader.blobs.read(file.blob)) == file.size
    failed = Counter(trace.outcome.side.value for trace in traces if isinstance(trace.outcome, Failed))
    began = sum(b'"rollout_began"' in line for line in (stored.path / "events.jsonl").read_bytes().splitlines())
    if not num_restarts:  # what was in flight when the command ended is in nobody's books
        assert began == len(traces) + attempts.total(), "every attempt is either an end or counted as lost"
    return f"{len(traces):,} rollouts, {began:,} begun, attempts {dict(attempts)}, failed by side {dict(failed)}"


def _require_told(trace: Trace, outcome: Failed, sides: Mapping[Side, frozenset[str]]) -> None:
    """It failed because of what was killed, and was tried as often as it may be; nothing of it became a reward."""
    assert trace.reward is None
    assert outcome.kind in sides[outcome.side], outcome
    if is_lost_worker(outcome):
        lost = [each.outcome for each in trace.attempts if is_lost_worker(each.outcome) and each.outcome.kind == LOST]
        assert len(lost) == MOST_LOST - 1
    else:
        assert outcome.side in INFRASTRUCTURE
        assert any(not is_lost_worker(each.outcome) for each in trace.attempts), "lost workers are no attempt of its own"


def nothing_is_left(command: Command) -> None:
    """No worker, no sandbox and no server outlives its run."""

    def left() -> list[int]:
        return [*below(command.marker), *(pid for pid, since in command.started if started_at(pid) == since)]

    patience = time.monotonic() + 60
    while left() and time.monotonic() < patience:
        time.sleep(0.2)
    assert not [(pid, commanded(pid)) for pid in left()]
    assert not [path for path in command.scratch.iterdir() if not path.name.startswith("torchinductor")]
