"""Our verdicts on SWE-bench rows against swebench's own grading code.

    python benchmarks/swebench_verdicts.py ENV_FOLDER PYTHON_WITH_SWEBENCH

For each task of an imported `swebench` environment: the golden patch, no patch, and a patch that breaks the package. Ours is the
score of a rollout; theirs is `get_eval_report` on the log of `pytest -rA` over the same files, in a sandbox of ours, not in
Docker.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from sandlot import Agent, Scored, Task, load, run, tasks_of
from sandlot.core.ports.sandbox import Command
from sandlot.interop.repositories.patches import patched
from sandlot.interop.repositories.suite import ROOT, RepositoryLayout, open_suite
from sandlot.sandbox.command import run_command
from sandlot.wiring.parts import open_backend

THEIRS = """
import json, sys
from swebench.harness.grading import get_eval_report
from swebench.types import TestSpec
found = {}
for each in json.load(open(sys.argv[1])):
    named = {"log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"}
    spec = TestSpec(each["id"], "", [], "o/r", "1", each["f2p"], each["p2p"], **named)
    prediction = {"instance_id": each["id"], "model_name_or_path": "x", "model_patch": each["patch"]}
    found[each["id"] + " " + each["answer"]] = get_eval_report(spec, prediction, each["log"], False)[each["id"]]["resolved"]
print(json.dumps(found))
"""


def tree(env: Path, name: str) -> dict[str, bytes]:
    root = env / "repositories" / name
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def answers(task: Task, files: dict[str, bytes]) -> dict[str, str]:
    """Patches by name: golden, none, and one that ends the first module of the package with an error."""
    path = task.key["patch"].split()[2].removeprefix("a/")
    lines = files[path].decode().count("\n")
    last = files[path].decode().splitlines()[-1]
    broken = f"--- a/{path}\n+++ b/{path}\n@@ -{lines},1 +{lines},2 @@\n {last}\n+raise ImportError\n"
    return {"golden": task.key["patch"], "none": "", "broken": broken}


async def log_of(env: Path, task: Task, patch: str) -> str:
    """The output of pytest over the files of the named tests, as their evaluation script prints it."""
    about = json.loads((env / "repositories" / f"{task.data['repository']}.json").read_text())
    layout = RepositoryLayout(paths=about["paths"], modules=about["modules"], tests=about["tests"], options=about["options"])
    hidden, given = tree(env, task.key["hidden"]), tree(env, task.data["repository"])
    sources = {
        path: content for path, content in patched(given, patch).items() if path not in hidden or hidden[path] == given.get(path)
    }
    site = env / "site" / about.get("site", "")
    tests = sorted({test.partition("::")[0] for test in (*task.key["fail_to_pass"], *task.key["pass_to_pass"])})
    paths = [str(site), *(f"{ROOT}/{path}".removesuffix("/.") for path in layout.paths)]
    code = (
        f"import sys; sys.path[:0] = {paths!r}; import pytest; sys.exit(pytest.main(['-rA', '-pno:cacheprovider', *{tests!r}]))"
    )
    async with open_backend() as backend, open_suite(backend, hidden | sources, (site,), layout) as suite:
        command = Command(argv=("/usr/bin/python3", "-S", "-s", "-P", "-B", "-c", code), cwd=ROOT, output_bytes=2**26)
        done = await run_command(suite.sandbox, command)
    return f">>>>> Start Test Output\n{done.stdout}\n>>>>> End Test Output\n"


def ours(folder: Path, runs: Path) -> dict[str, bool]:
    env = load(folder)
    found: dict[str, bool] = {}
    for answer in ("golden", "none", "broken"):

        async def play(agent: Agent, task: Task, answer: str = answer) -> None:
            patch = answers(task, tree(folder, task.data["repository"]))[answer]
            if patch:
                await agent.call("bash", command=f"cd {ROOT} && git apply - <<'END_OF_PATCH'\n{patch}END_OF_PATCH")
            await agent.say("Done.")

        env.marked.solution = play
        for trace in run(env, "scripted:golden", runs=runs / answer, at_once=2):
            assert isinstance(trace.outcome, Scored), trace.outcome
            found[f"{trace.task} {answer}"] = trace.outcome.score.passed
    return found


def theirs(folder: Path, python: str, work: Path) -> dict[str, bool]:
    rows: list[dict[str, Any]] = []
    for task in tasks_of(load(folder)):
        for answer, patch in answers(task, tree(folder, task.data["repository"])).items():
            log = work / f"{task.id}-{answer}.log"
            log.write_text(anyio.run(log_of, folder, task, patch))
            keys = {"f2p": task.key["fail_to_pass"], "p2p": task.key["pass_to_pass"]}
            rows.append({"id": task.id, "answer": answer, "patch": patch, "log": str(log), **keys})
    (work / "rows.json").write_text(json.dumps(rows))
    done = subprocess.run([python, "-c", THEIRS, str(work / "rows.json")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    folder, python = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as temporary:
        mine, other = ours(folder, Path(temporary) / "runs"), theirs(folder, python, Path(temporary))
    different = {name: (mine[name], other[name]) for name in mine if mine[name] != other[name]}
    print(json.dumps({"verdicts": len(mine), "resolved": sum(mine.values()), "different": different}))


if __name__ == "__main__":
    main()
