"""The documents tell the truth: every block runs, every command, field and port is there, generated pages are fresh."""

import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from drive.command_line import Outcome

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
SLOW = {"train", "calibrate", "run-and-look"}
"""Pages whose commands take half a minute: they run with the longer proofs only."""
LEFT_OUT = ("sandlot audit add.py", "sandlot audit acme-words", "sandlot show clock.py", "sandlot run clock.py")
"""Commands of other pages that run with the longer proofs only: audits and an MCP server start a dozen interpreters."""
FEWER = {
    "sandlot run helpdesk --model scripted:mixed:0.5 --group 4 --run runs/desk": "--task shift-01 --task shift-02",
    "sandlot run helpdesk --model scripted:mixed:0.5 --split heldout --group 4 --run runs/first": "--group 2",
    "sandlot run helpdesk --model scripted:golden --split heldout --run runs/second": "--rollouts 12",
    "sandlot health runs/first --against runs/second": "",
    "sandlot health runs/first": "--regrades 4 --replays 2",
    "sandlot diagnose arithmetic": "--tasks 4",
    "sandlot audit --grader grading:score --tasks tasks.jsonl": "--limit 2",
    "sandlot run helpdesk --split heldout --model scripted:golden --harness loop:Plain": "--rollouts 12",
    "sandlot simulate --groups 100 --instances 4": "--groups 8",
}
"""Options, by how a command begins, that make it shorter where a page is not run in full: the last one given counts."""
NEW_PROCESSES = {"import", "models"}
"""Pages whose commands are new processes always, as a reader's are."""
SHORT = [page for page in PAGES if page.stem not in SLOW]
BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"sandlot [^|&;<>`$(){}*?~]*")
"""A command line that says the same to a shell and to `shlex`."""
BIN = Path(sys.executable).parent
SCRIPT = f"import sys; sys.path[0] = {str(BIN)!r}; from sandlot.cli.main import main; sys.exit(main())"
"""What the file `sandlot` does."""


def blocks(page: Path) -> list[tuple[str, str, str]]:
    return [(language, options or "", body) for language, options, body in BLOCK.findall(page.read_text())]


def commands(body: str) -> list[str]:
    return [line[2:] for line in body.splitlines() if line.startswith("$ ") and not line.startswith("$ make ")]


def is_shortened(page: Path) -> bool:
    lines = [line for language, options, body in blocks(page) if "no-run" not in options for line in commands(body)]
    return page.stem in SLOW or any(line.startswith((*LEFT_OUT, *FEWER)) for line in lines)


class Processes:
    """Runs what a page says in new processes, as its reader does."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._environment = os.environ | environment()

    def python(self, code: str) -> str:
        return self._run([sys.executable, "-c", code])

    def command(self, line: str) -> str:
        return self._run(["bash", "-ec", line])

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            words, cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout


class Forks:
    """Runs it in forks of a process that has the imports behind it, and leaves out or shortens what takes long."""

    fewer: ClassVar[Mapping[str, str]] = FEWER
    left_out: ClassVar[tuple[str, ...]] = LEFT_OUT

    def __init__(self, folder: Path, sandlot: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch):
        self._folder = folder
        self._fork = sandlot
        self._monkeypatch = monkeypatch

    def python(self, code: str) -> str:
        if "from sandlot.train import" not in code:
            return self._run(code, [], 0, {})
        self._monkeypatch.chdir(self._folder)  # it imports torch, which this process has
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        return ""

    def command(self, line: str) -> str:
        if line.startswith(self.left_out):
            return ""
        line, _, code = line.partition(" || test $? -eq ")
        words = shlex.split(line)
        variables = {}
        while "=" in words[0]:
            variables |= [words.pop(0).split("=", 1)]
        program = words.pop(0)
        more = next((more for start, more in self.fewer.items() if shlex.join([program, *words]).startswith(start)), "")
        if program == "python":
            return self._run(f"import runpy; runpy.run_path({words[0]!r}, run_name='__main__')", words[1:], 0, variables)
        assert program == "sandlot", line
        return self._run(SCRIPT, [*words, *more.split()], int(code or 0), variables)

    def _run(self, code: str, words: list[str], exit_code: int, variables: dict[str, str]) -> str:
        done = self._fork(*words, code=code, cwd=self._folder, **environment() | variables)
        assert done.code == exit_code, f"{words or code}\n{done.out}\n{done.err}"
        return done.out


class WholeForks(Forks):
    """Runs all of it in full: in such forks too what is a command of ours and nothing else, in a new process what is more."""

    fewer = MappingProxyType({})
    left_out = ()

    def python(self, code: str) -> str:
        return Processes(self._folder).python(code)

    def command(self, line: str) -> str:
        return super().command(line) if PLAIN.fullmatch(line) else Processes(self._folder).command(line)


def environment() -> dict[str, str]:
    return {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", SHORT, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_from_top_to_bottom(page, tmp_path, sandlot, monkeypatch):
    """From an empty folder: ```python FILE``` writes a file, ```python``` runs, `$` lines of ```console``` have exit code 0."""
    follow(page, tmp_path, Processes(tmp_path) if page.stem in NEW_PROCESSES else Forks(tmp_path, sandlot, monkeypatch))


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if is_shortened(page)], ids=lambda page: page.stem)
def test_a_page_with_long_commands_runs_in_full(page, tmp_path, sandlot, monkeypatch):
    """The README in new processes only, as its reader runs it."""
    as_its_reader = page.stem == "README" or page.stem in NEW_PROCESSES
    follow(page, tmp_path, Processes(tmp_path) if as_its_reader else WholeForks(tmp_path, sandlot, monkeypatch))


def test_what_is_left_out_or_shortened_is_on_a_page():
    lines = [line for page in SHORT for _, options, body in blocks(page) if "no-run" not in options for line in commands(body)]
    assert [start for start in (*LEFT_OUT, *FEWER) if not any(start in line for line in lines)] == []


def follow(page: Path, folder: Path, reader: Processes | Forks) -> None:
    ran = 0
    printed = ""
    for language, options, body in blocks(page):
        if "no-run" in options:
            printed = ""
            continue
        if language in {"python", "toml", "json"} and options:
            path = folder / options
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        elif language == "python":
            reader.python(body)
        elif language == "console":
            for line in commands(body):
                printed = reader.command(line)
        elif language == "text" and printed:
            shown, whole = lasting(body), lasting(printed)
            same = shown == whole if page.name == "README.md" else shown in whole
            assert same, f"{page.name} shows what the command above it does not print:\n{printed}"
        ran += 1
    assert ran or "```" not in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_text_before_a_block_names_the_file_to_save_it_as(page):
    """A rendered page does not show the name after the opening ```."""
    text = page.read_text()
    named = [(match.start(), match[2]) for match in BLOCK.finditer(text) if match[2] and "no-run" not in match[2]]
    assert [name for start, name in named if f"`{name}`" not in text[:start].rpartition("```\n")[2]] == []


def test_every_image_of_a_page_is_there_and_all_of_them_are_small():
    shown = [(page.parent / name).resolve() for page in PAGES for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())]
    images = set((ROOT / "docs" / "images").glob("*.webp"))
    assert [path for path in shown if not path.is_file()] == []
    assert images <= set(shown)
    assert sum(path.stat().st_size for path in images) < 600_000


def lasting(text: str) -> str:
    """The lines of an output that are the same on every machine: all but the times."""
    return "\n".join(line.rstrip() for line in text.splitlines() if not line.strip().startswith(("time ", "slowest ")))


@pytest.mark.timeout(300)  # the Python reference imports torch
def test_generated_pages_are_fresh(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    made = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    stale = [name for name, text in made.items() if (ROOT / "docs" / "reference" / name).read_text() != text]
    assert stale == [], "run `make docs`"


@pytest.mark.timeout(300)
def test_every_exported_name_has_a_reference_with_an_example_and_every_parameter():
    import sandlot

    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    entries = dict(re.findall(r"^## `sandlot\.(\w+)`\n(.*?)(?=^##? |\Z)", page, re.MULTILINE | re.DOTALL))
    assert [name for name in dir(sandlot) if "```python\n" not in entries.get(name, "")] == []
    silent = []
    for name in dir(sandlot):
        value = getattr(sandlot, name)
        if getattr(value, "_is_protocol", False) or value in {sandlot.Agent, sandlot.End, sandlot.Split}:
            continue  # handed out by Sandlot: users do not make these
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        silent += [f"{name}: {each}" for each in inspect.signature(value).parameters if f"`{each}`" not in entries[name]]
    assert silent == []


EXAMPLES = """
import re, runpy, sys
from pathlib import Path
for number, code in enumerate(re.findall(r"^```python\\n(.*?)^```$", Path(sys.argv[1]).read_text(), re.M | re.S)):
    file = Path(f"example_{number}.py")
    file.write_text(code)
    try:
        runpy.run_path(str(file))
    except BaseException:
        print(code, file=sys.stderr)
        raise
"""


@pytest.mark.system
@pytest.mark.timeout(900)
def test_every_example_of_the_python_reference_runs(tmp_path):
    """In one process and an empty folder, each in a file and a namespace of its own."""
    page = ROOT / "docs" / "reference" / "python.md"
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES, page],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


DOORS = ("sandlot", "sandlot.apps", "sandlot.train", "sandlot.ports", "sandlot.checks", "sandlot.checks.office")
SUITES = tuple(f"sandlot.testing.{path.stem}" for path in sorted((ROOT / "src" / "sandlot" / "testing").glob("[a-z]*.py")))
"""For tests of plug-ins."""
ADAPTERS = (
    "sandlot.run.simulate",
    "sandlot.interop.trl",
    "sandlot.interop.gyms.views",
    "sandlot.observe.otel",
    "sandlot.serve.metrics",
)
"""Adapters to other packages and the simulator, one module each, named in their guide."""
OUR_TOOLING = {
    "recipes/rookie.py": "builds the weights of `rookie` with the decoder and the tokenizer",
    "recipes/curves.py": "draws the charts and the table of docs/guides/train.md",
    "environments/broken/sweep.py": "measures the audit itself",
    "environments/browser/tests/test_browser.py": "compares the bytes of two cold starts",
    "environments/company/tests/test_company.py": "as above",
    "environments/company/tests/conftest.py": "makes once what every world begins with",
    "environments/desktop/tests/test_desktop.py": "as above",
}
"""Files that may import deeper, and why: they make parts of Sandlot."""
IMPORT = re.compile(r"^\s*(?:from|import) (sandlot[\w.]*)", re.MULTILINE)


def deep_imports(text: str, doors: tuple[str, ...]) -> list[str]:
    return [module for module in IMPORT.findall(text) if module not in doors]


def test_guides_and_recipes_import_from_the_doors_only():
    pages = [*PAGES, *(ROOT / "docs" / "concepts").glob("*.md"), *ROOT.glob("recipes/*.py"), *ROOT.glob("environments/**/*.md")]
    deep = {str(page.relative_to(ROOT)): deep_imports(page.read_text(), DOORS + ADAPTERS + SUITES) for page in pages}
    assert {page: found for page, found in deep.items() if found and page not in OUR_TOOLING} == {}


def test_environments_and_scaffolds_import_from_the_front_door_only():
    files = [*ROOT.glob("environments/**/*.py"), *(ROOT / "src" / "sandlot" / "env" / "templates").rglob("*.jinja")]
    own_tools = {"schema-beside-the-handler"}  # it writes the class of a tool by hand, as plug-ins do
    own = ("sandlot", "sandlot.apps", "sandlot.checks", "sandlot.checks.office")
    doors = {file: DOORS if file.parent.name in own_tools else own for file in files}
    deep = {str(file.relative_to(ROOT)): deep_imports(file.read_text(), doors[file]) for file in files}
    assert {file: found for file, found in deep.items() if found and file not in OUR_TOOLING} == {}


def test_every_command_and_port_is_in_the_reference():
    from sandlot.cli.main import app
    from sandlot.core.ports import sandbox as sandboxes
    from sandlot.core.ports import session as ports

    commands = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert [command.name for command in app.registered_commands if f"## `sandlot {command.name}`" not in commands] == []
    pages = (ROOT / "docs" / "reference" / "ports.md").read_text()
    protocols = [
        name
        for module in (ports, sandboxes)
        for name, value in vars(module).items()
        if getattr(value, "_is_protocol", False) and value.__module__ == module.__name__
    ]
    assert [name for name in protocols if f"## {name}\n" not in pages] == []


def test_every_scripted_agent_is_in_the_guide():
    from sandlot.model.policy.scripted import NAMES

    page = (ROOT / "docs" / "guides" / "models.md").read_text()
    assert [name for name in NAMES if f"| `scripted:{name}` |" not in page] == []


def test_every_field_of_the_configuration_says_what_it_means():
    """A name that needs no words is one of these; anything else has its meaning on the field."""
    plain = {
        "name",
        "description",
        "id",
        "tool",
        "seed",
        "network",
        "env",
        "model",
        "temperature",
        "top_p",
        "split",
        "format",
        "checks",
    }
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]* \| [^|]* \| ([^|]*) \|$", (ROOT / "docs" / "reference" / "config.md").read_text(), re.MULTILINE
    )
    assert [field for field, meaning in rows if not meaning.strip() and field not in plain] == []


def test_relative_links_lead_somewhere():
    broken = []
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("environments/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken
