"""What a job may want, each looked for in what the agent left. Nothing here runs anything of the agent's."""

import base64
import hmac
import io
import json
import shlex
import tarfile
from datetime import datetime
from hashlib import sha256
from typing import Any

from sandlot import Evidence

from .repository import read_chain, read_commit, ref_hash

LARGEST = 2**20


async def is_there(  # noqa: PLR0911 - one for each kind
    evidence: Evidence, want: dict[str, Any], ran: dict[str, list[str]]
) -> bool:
    """True if it is. `ran` holds what commands printed that several wants ask about."""
    if want["kind"] == "runs":
        key = json.dumps([want["paths"], want["commands"]])
        if key not in ran:
            ran[key] = await printed(evidence, want)
        return len(ran[key]) > want["part"] and tidy(ran[key][want["part"]]) == tidy(want["value"])
    if want["kind"] == "watched":
        return settled(evidence.state.get("watched", ""), want)
    if "path" in want:
        return evidence.exists(want["path"]) and same(evidence, want)
    if want["kind"] == "files":
        left = {path: sha256(evidence.read(path)).hexdigest() for path in evidence.list(want["folder"])}
        return left == want["digests"]
    tip = ref_hash(evidence, want["repository"], want["ref"])
    if want["kind"] == "ref":
        return tip == want["hash"]
    if want["kind"] == "chain":
        return await read_chain(evidence, want["repository"], want["base"], tip) == want["value"]
    return await read_commit(evidence, want["repository"], tip) == (want["tree"], want["parents"])


def same(evidence: Evidence, want: dict[str, Any]) -> bool:  # noqa: PLR0911 - one for each kind
    """True if the file at the wanted path says what it should."""
    match want["kind"]:
        case "text":
            return tidy(evidence.read_text(want["path"])) == tidy(want["value"])
        case "json":
            return same_json(evidence.read_text(want["path"]), want["value"])
        case "line":
            said = tidy(evidence.read_text(want["path"]))
            return len(said) > want["number"] and said[want["number"]].strip() == want["value"]
        case "sealed":
            return settled(evidence.read_text(want["path"]), want)
        case "password":
            return fits_rules(evidence.read_text(want["path"]).strip(), want)
        case "cron":
            return fires(evidence.read_text(want["path"]), want["days"]) == want["value"]
        case "tar":
            return members(evidence.read(want["path"])) == want["members"]
        case other:
            raise ValueError(f"a want of kind {other!r}")


def name_of(want: dict[str, Any]) -> str:
    return want.get("name") or want.get("path") or want.get("ref") or want["folder"]


def tidy(text: str) -> list[str]:
    """Lines without what nobody sees: blanks at their ends, empty lines at the end of all."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def same_json(text: str, value: Any) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)  # True is not 1, 1 is not 1.0


def members(archive: bytes) -> dict[str, list[str]]:
    """Name -> mode, owner, digest of every file in a tar that is small enough to look at."""
    found: dict[str, list[str]] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                content = tar.extractfile(member) if member.isreg() and member.size <= LARGEST else None
                digest = sha256(content.read()).hexdigest() if content else "not a file"
                found[member.name.removeprefix("./")] = [f"{member.mode:o}", f"{member.uid}:{member.gid}", digest]
    except (tarfile.TarError, ValueError, EOFError, OSError):
        return {}
    return found


async def printed(evidence: Evidence, want: dict[str, Any]) -> list[str]:
    """What commands print in a fresh sandbox that has only these files of the agent, and the grader's own."""
    if not all(evidence.exists(path) for path in want["paths"]):
        return []
    replaced = [path for path in want["paths"] if path.startswith("/etc/")]
    async with evidence.grading_sandbox(*want["paths"], replace=replaced) as world:
        for path, text in want["files"].items():
            await world.write(path, text)
        steps = [f"chmod 755 {shlex.quote(path)}" for path in want["paths"]]
        steps += [f"(timeout 30 sh -c {shlex.quote(command)} 2>/dev/null | base64 -w0); echo" for command in want["commands"]]
        done = await world.exec("\n".join(steps), output_bytes=LARGEST)
    return [base64.b64decode(line).decode(errors="replace") for line in done.stdout.splitlines()]


def settled(text: str, want: dict[str, Any]) -> bool:
    """True if a machine left this state: its seal is right, and every named part is as wanted."""
    try:
        left = json.loads(text)
        state = json.dumps(left["state"], sort_keys=True)
        seal = str(left["seal"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    true = hmac.new(want["seal"].encode(), state.encode(), sha256).hexdigest()
    return hmac.compare_digest(true.encode(), seal.encode(errors="replace")) and all(
        part_of(left["state"], name) == value for name, value in want["value"].items()
    )


def part_of(state: Any, name: str) -> Any:
    """A part of a state: `a/b` is `state["a"]["b"]`, and `a//x/y` is `state["a"]["/x/y"]`."""
    first, _, rest = name.partition("/")
    inside = state.get(first) if isinstance(state, dict) else None
    if not rest or inside is None:
        return inside
    return inside.get(rest) if rest.startswith("/") and isinstance(inside, dict) else part_of(inside, rest)


def fits_rules(password: str, want: dict[str, Any]) -> bool:
    digits = sum(char.isdigit() for char in password)
    whole = len(password) >= want["length"] and digits >= want["digits"] and want["login"] not in password
    return whole and bool(set(password) & set(want["marks"]))


def fires(text: str, days: list[str]) -> dict[str, list[str]] | None:
    """Command -> the minutes of these days at which a system crontab runs it; None if a line cannot be read."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#") or "=" in line.split()[0]:
            continue
        parts = line.split(None, 6)
        if len(parts) < 7 or len(found) > 50:
            return None
        wanted = [field(part, *limits) for part, limits in zip(parts[:5], LIMITS, strict=True)]
        if any(each is None for each in wanted) or parts[5] != "root":
            return None
        minutes, hours, in_month, months, in_week = (each or set() for each in wanted)
        times = found.setdefault(parts[6].strip(), [])
        for day in days:
            start = datetime.fromisoformat(day)
            by_week = (start.isoweekday() % 7) in in_week or (start.isoweekday() % 7 == 0 and 7 in in_week)
            by_month = start.day in in_month
            both = parts[2].startswith("*") or parts[4].startswith("*")
            if start.month in months and ((by_week and by_month) if both else (by_week or by_month)):
                times += [f"{day[5:]} {hour:02}:{minute:02}" for hour in hours for minute in minutes]
    return {command: sorted(times) for command, times in found.items()}


LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {name: str(number) for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
NAMES |= {
    name: str(number)
    for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}


def field(text: str, low: int, high: int) -> set[int] | None:
    """The numbers that a field of a crontab stands for: `*`, `5`, `1-5`, `*/10`, `mon-fri`, joined by commas."""
    found: set[int] = set()
    for piece in text.lower().split(","):
        span, _, step = piece.partition("/")
        ends = [NAMES.get(end, end) for end in span.split("-")] if span != "*" else [str(low), str(high)]
        if not all(end.isdecimal() and len(end) < 4 for end in ends) or len(ends) > 2 or (step and not step.isdecimal()):
            return None
        first, last = int(ends[0]), int(ends[-1]) if len(ends) > 1 or not step else high
        if not low <= first <= last <= high or (step and not 0 < int(step) < 100):
            return None
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def runs(paths: list[str], files: dict[str, str], cases: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Wanted: that each command prints its text, all in one sandbox. A case is its name, its command and what it prints."""
    commands = [command for _, command, _ in cases]
    shared = {"kind": "runs", "paths": paths, "files": files, "commands": commands}
    return [shared | {"name": name, "part": part, "value": value} for part, (name, _, value) in enumerate(cases)]
