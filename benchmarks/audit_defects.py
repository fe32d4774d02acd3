"""Measures `sandlot audit` on real defects: the commit before a public fix, and the fix as its clean twin.

    python benchmarks/audit_defects.py --cases benchmarks/defects/half_a     audit what has no result yet
    python benchmarks/audit_defects.py --cases ... --check                  only execute the witness of each case on both trees
    python benchmarks/audit_defects.py --cases ... --only NAME --show       one case, every finding printed
    python benchmarks/audit_defects.py --cases ... --report                 the table of what has a result

A case is found if a confirmed finding at `before` shows the listed defect by a witness that the fix removes. Confirmed findings
at the fix and in clean subjects are false (the serious ones) or minor, unless the case lists them as real, with a reason. An
audit that has not ended in its time is a miss, and the table says so. Results are JSON lines in `benchmarks/out/`, valid for
one content of the case and of the auditor (`--any-auditor` accepts others).
"""

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import msgspec
from defect_cases import CLAIMS, Case, audit_command, content, prepare, read_cases
from defect_table import table_rows
from report import Report, publish, say

from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.subject import Request, Say, Script, Take, Trial
from sandlot.audit.subjects.foreign.grader import open_grader, read_config

NAME = "audit_defects"
ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "sandlot" / "audit"
_IN_TIME = 0.85
"""The share of the time limit that the audit gets as its budget; loading and the report take the rest."""
_lock = threading.Lock()


def auditor() -> str:
    """A digest of the auditor's own code."""
    body = b"".join(each.read_bytes() for each in sorted(SOURCES.rglob("*.py")))
    return hashlib.sha256(body).hexdigest()[:12]


def audited(place: Path, case: Case, seconds: float) -> dict[str, Any]:
    """One audit as a user would run it, ended when its time is over."""
    command, variables = audit_command(place, case, _IN_TIME * seconds)
    started = time.monotonic()
    with (place / "stdout.json").open("wb") as out, (place / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(command, cwd=place, env=variables, stdout=out, stderr=err, start_new_session=True)
        ended, cpu_s = _wait(process, started + seconds)
    spent = {"seconds": round(time.monotonic() - started, 1), "cpu_s": round(cpu_s, 1)}
    try:
        report = json.loads((place / "stdout.json").read_text())
    except json.JSONDecodeError:
        ending = (place / "stderr.txt").read_text(errors="replace")[-1500:]
        return {"verdict": "NO REPORT" if ended else "DID NOT END", **spent, "findings": [], "why": ending}
    probes = [(layer["layer"], probe) for layer in report["layers"] for probe in layer["probes"]]
    gaps = [f"{layer}/{probe['name']}: {probe['why']}" for layer, probe in probes if probe["state"] == "broke"]
    return {"verdict": report["verdict"], **spent, "findings": report["findings"], "why": "; ".join(gaps)}


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bool, float]:
    """Whether it ended by itself, and the CPU-seconds of its process tree."""
    told = killed = False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)  # reaped here: Popen must not wait again
            return not told, used.ru_utime + used.ru_stime
        if not told and time.monotonic() > deadline:
            told = True
            os.killpg(process.pid, signal.SIGINT)
        elif not killed and time.monotonic() > deadline + 30:
            killed = True
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)


async def graded(place: Path, wanted: list[tuple[str, str]], function: str = "") -> list[Trial]:
    """Answers to tasks (an empty name is the first task), graded in the sandbox as the audit does."""
    config = read_config(place / "grader.toml")
    if function:
        config = msgspec.structs.replace(config, grader=f"wiring:{function}")
    async with open_grader(config) as subject:
        first = (await subject.describe()).tasks[0].id
        takes: list[Request] = [
            Take(task=task or first, play=Script(name="answer", turns=((Say(text=answer),),)), seed=0) for task, answer in wanted
        ]
        return await subject.take(takes)


def outcome(trial: Trial) -> float | str:
    """The score before it was clipped, or why there is none."""
    if trial.lost is not None:
        return f"lost: {trial.lost}"
    score = trial.scores[0]
    return score.score.points if hasattr(score, "score") else f"{score.kind}: {score.message}"


def matches(finding: Finding, case: Case) -> bool:
    """True if it may be the listed defect: it claims a defect of the case's direction, and its words have the listed text."""
    if finding.standing is not Confidence.CONFIRMED:
        return False
    witnesses = msgspec.to_builtins([finding.witness, *finding.others])
    words = json.dumps(witnesses, ensure_ascii=False) + finding.title
    codes = case.hit.codes or CLAIMS.get(case.direction, ("D",))
    return finding.code.startswith(codes) and bool(re.search(case.hit.text, words))


def showing(case: Case, places: dict[str, Path], found: dict[str, list[Finding]]) -> list[str]:
    """The findings at `before` that show the listed defect by one of their witnesses, by id."""
    candidates = [each for each in found["before"] if matches(each, case)]
    twins = {each.code for each in found["fix"] if matches(each, case)}
    gone = [each.id for each in candidates if each.code not in twins]
    if case.env or case.gym is not None:
        return gone
    prompts = {side: _prompts(place) for side, place in places.items()}
    again = [
        (each.id, wanted)
        for each in candidates
        for wanted in _answers(each)
        if prompts["before"].get(wanted[0]) == prompts["fix"].get(wanted[0])
    ]
    wanted = [answer for _, answer in again]
    before, fixed = (
        [outcome(trial) for trial in anyio.run(graded, places[side], wanted)] if wanted else [] for side in ("before", "fix")
    )
    changed = {name for (name, _), one, two in zip(again, before, fixed, strict=True) if one != two}
    repeated = {name for name, _ in again}
    return [each.id for each in candidates if each.id in changed or (each.id not in repeated and each.id in gone)]


def _answers(finding: Finding) -> list[tuple[str, str]]:
    """The task and answer of each witness that has both."""
    inputs = [each.inputs for each in (finding.witness, *finding.others) if each is not None]
    pairs = [(each.get("task"), each.get("answer")) for each in inputs]
    return [(task, answer) for task, answer in pairs if isinstance(task, str) and isinstance(answer, str) and len(answer) < 2000]


def _prompts(place: Path) -> dict[str, str]:
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text().splitlines()]
    return {str(row.get("id", f"line-{number}")): json.dumps(row, sort_keys=True) for number, row in enumerate(rows, 1)}


def check(name: str, case: Case, places: dict[str, Path]) -> bool:
    """Execute the witness on both trees."""
    witness = case.witness
    if witness is None:
        return True
    seen: dict[str, Any] = {}
    for side, place in places.items():
        try:
            trials = anyio.run(graded, place, [(witness.row, witness.answer or "")], witness.function)
            seen[side] = outcome(trials[0])
        except Exception as error:  # one case must not end the others
            seen[side] = f"not loaded: {type(error).__name__}: {error}"
    wanted = {"before": witness.before, "fix": witness.fix}
    right = all(_same(seen[side], wanted[side]) for side in wanted)
    say(f"{'ok   ' if right else 'WRONG'} {name}  " + ("" if right else f"expected {wanted}, ") + f"observed {seen}")
    return right


def _same(seen: float | str, wanted: float | str) -> bool:
    if isinstance(wanted, str) or isinstance(seen, str):
        return isinstance(seen, str) and isinstance(wanted, str) and bool(re.search(wanted, seen))
    return abs(seen - float(wanted)) < 1e-6


class Results:
    """JSON lines, one for each audited side."""

    def __init__(self, path: Path, *, any_auditor: bool) -> None:
        self._path, self._stamp, self._any = path, auditor(), any_auditor
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self._lines = [json.loads(line) for line in lines]

    def get(self, name: str, side: str, digest: str) -> dict[str, Any] | None:
        for line in reversed(self._lines):
            if (line["case"], line["side"], line["content"]) == (name, side, digest) and (
                self._any or line["auditor"] == self._stamp
            ):
                return line
        return None

    def add(self, record: dict[str, Any]) -> None:
        record["auditor"] = self._stamp
        with _lock, self._path.open("a") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._lines.append(record)


def run(
    folder: Path, cases: dict[str, Case], places: dict[str, dict[str, Path]], results: Results, options: argparse.Namespace
) -> None:
    """Audit every side that has no result."""
    waiting = [
        (name, side) for name, case in cases.items() for side in case.sides if not results.get(name, side, content(folder, name))
    ]

    def one(work: tuple[str, str]) -> None:
        name, side = work
        record = audited(places[name][side], cases[name], options.seconds)
        confirmed = sorted({each["code"] for each in record["findings"] if each["standing"] == "confirmed"})
        times = f"{record['cpu_s']:6.1f} CPU-s of {record['seconds']:6.1f} s"
        say(f"{name:34} {side:6} {record['verdict']:11} {times}  {' '.join(confirmed)} {record['why'][-200:]}")
        results.add({"case": name, "side": side, "content": content(folder, name), **record})

    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(one, waiting))


def _showing(name: str, case: Case, places: dict[str, Path], found: dict[str, list[Finding]]) -> list[str]:
    """A case whose witnesses cannot be graded again has no hit, and does not end the table."""
    try:
        return showing(case, places, found)
    except Exception as error:
        say(f"NOT JUDGED {name}: {type(error).__name__}: {error}")
        return []


def judged(folder: Path, cases: dict[str, Case], places: dict[str, dict[str, Path]], results: Results) -> list[dict[str, Any]]:
    """One record for each case with results: whether it is found, and which findings are false."""
    records: list[dict[str, Any]] = []
    for name, case in cases.items():
        lines = {side: results.get(name, side, content(folder, name)) for side in case.sides}
        if not all(lines.values()):
            continue
        sides = {side: line for side, line in lines.items() if line}
        found = {side: msgspec.convert(line["findings"], list[Finding]) for side, line in sides.items()}
        hits = _showing(name, case, places[name], found) if case.before else []
        right = {
            each.id
            for each in found["fix"]
            if any(each.code.startswith(one.code) and re.search(one.text, each.title) for one in case.real)
        }
        wrong = [each for each in found["fix"] if each.standing is Confidence.CONFIRMED and each.id not in right]
        records.append(
            {
                "case": name,
                "project": case.project,
                "kind": case.kind,
                "direction": case.direction,
                "verdicts": {side: line["verdict"] for side, line in sides.items()},
                "cpu_s": {side: line["cpu_s"] for side, line in sides.items()},
                "hits": sorted({each.code for each in found.get("before", []) if each.id in hits}),
                "leads": sorted({each.code for each in found.get("before", []) if each.standing is not Confidence.CONFIRMED}),
                "real": sorted({each.code for each in found["fix"] if each.grave and each.id in right}),
                "false": sorted({each.code for each in wrong if each.grave}),
                "minor": sorted({each.code for each in wrong if not each.grave}),
            }
        )
    return records


def show(folder: Path, cases: dict[str, Case], results: Results) -> None:
    for name, case in cases.items():
        for side in case.sides:
            line = results.get(name, side, content(folder, name))
            for each in line["findings"] if line else []:
                say(f"{name} {side} {each['standing']} {each['severity']} {each['code']}: {each['title']}")
                say(f"      {json.dumps(each['witness'], ensure_ascii=False)[:700]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=ROOT / "benchmarks" / "defects" / "half_a", help="a folder of cases")
    parser.add_argument("--mirrors", type=Path, default=ROOT.parent / ".mirror", help="folder of bare clones, OWNER+NAME/repo")
    parser.add_argument("--only", nargs="*", default=[], help="cases; all if none is named")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600, help="time limit of one audit")
    parser.add_argument("--results", type=Path, help="JSON lines; default: benchmarks/out/defects-NAME.jsonl")
    parser.add_argument("--any-auditor", action="store_true", help="accept results of other versions of the auditor")
    parser.add_argument("--check", action="store_true", help="execute the witnesses and stop")
    parser.add_argument("--report", action="store_true", help="audit nothing more")
    parser.add_argument("--show", action="store_true", help="print every finding")
    parser.add_argument("--table", action="store_true", help="write the table to README.md")
    options = parser.parse_args()
    folder = options.cases.resolve()
    cases = read_cases(folder, set(options.only))
    places = prepare(folder, cases, options.mirrors.resolve())
    left_out = [name for name in cases if name not in places]
    cases = {name: case for name, case in cases.items() if name in places}
    if options.check:
        wrong = [*left_out, *(name for name, case in cases.items() if not check(name, case, places[name]))]
        raise SystemExit(f"{len(wrong)} of {len(cases) + len(left_out)} witnesses are wrong: {', '.join(wrong)}" if wrong else 0)
    results = Results(
        options.results or ROOT / "benchmarks" / "out" / f"defects-{folder.name}.jsonl", any_auditor=options.any_auditor
    )
    if not options.report:
        run(folder, cases, places, results, options)
    if options.show:
        show(folder, cases, results)
    records = judged(folder, cases, places, results)
    ours = {"set": folder.name, "auditor": auditor(), "cases": len(cases), "left_out": left_out, "records": records}
    publish(Report(f"{NAME} {folder.name}", ours=ours, peers={}, ratios={}, rows=table_rows(records)), write_table=options.table)


if __name__ == "__main__":
    main()
