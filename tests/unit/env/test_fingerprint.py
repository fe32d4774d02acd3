"""What an environment's fingerprint covers: what it imports from its own folder, in every form, and nothing beside it."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest

import sandlot
from sandlot.cli.views.show import show_environment
from sandlot.env import load as loading
from sandlot.env.fingerprint import environment_fingerprint, files_of
from sandlot.env.module import forget_modules
from sandlot.env.scaffold import Form, scaffold

FUNCTION = """
from sandlot import Ask, Score, environment
{top}

@environment("add", tasks=2)
def add(rng):
    {late}
    answer = yield Ask("1+1?", golden="2")
    yield Score(answer == "2")
"""


def put(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def loaded(path):
    forget_modules(path if path.is_dir() else path.parent)
    return sandlot.load(path)


def names(path):
    return [name for name, _ in files_of(loaded(path))]


def fingerprint(path):
    return environment_fingerprint(loaded(path))


@pytest.mark.parametrize(
    ("line", "covered"),
    [
        ("import helper", ["helper.py"]),
        ("from helper import right", ["helper.py"]),
        ("from . import helper", ["helper.py"]),
        ("from .helper import right as it", ["helper.py"]),
        ("from importlib import import_module; import_module('.helper', __package__)", ["helper.py"]),
        ("import deep.inner", ["deep/inner.py", "helper.py"]),
        ("from pack import inner", ["helper.py", "pack/__init__.py", "pack/inner.py", "pack/words.txt"]),
        ("import pack.inner", ["helper.py", "pack/__init__.py", "pack/inner.py", "pack/words.txt"]),
        ("WORDS = (lambda: open('words.txt'))", ["words.txt"]),
    ],
)
@pytest.mark.parametrize("when", ["top", "late"])
def test_a_file_is_covered_with_what_it_imports_and_with_nothing_else(tmp_path, line, covered, when):
    code = FUNCTION.format(**{"top": "", "late": "pass", when: line})
    put(
        tmp_path,
        {
            "add.py": code,
            "helper.py": "right = True",
            "other.py": "import helper",
            "pack/__init__.py": "",
            "pack/inner.py": "import helper",
            "pack/words.txt": "yes",
            "deep/inner.py": "import helper",
            "words.txt": "yes",
            "notes.txt": "no",
            "elsewhere/big.txt": "no",
        },
    )
    path = tmp_path / "add.py"
    assert names(path) == sorted(["add.py", *covered])
    before = fingerprint(path)
    for name in covered:
        file = tmp_path / name
        text = file.read_text()
        file.write_text(text + "\n# other")
        assert fingerprint(path) != before, name
        file.write_text(text)
    put(tmp_path, {"other.py": "", "notes.txt": "other", "elsewhere/big.txt": "other"})
    assert fingerprint(path) == before


@pytest.mark.parametrize(
    ("read", "covered"),
    [
        ('os.path.join(os.path.dirname(__file__), "data", "words.txt")', ["data/words.txt"]),
        ('os.path.dirname(__file__) + "/words.txt"', ["words.txt"]),
        ('f"{HERE}/words.txt"', ["words.txt"]),
        ('f"{HERE}/data/{1}.txt"', ["data/words.txt"]),
        ('HERE / "./words.txt"', ["words.txt"]),
        ('HERE / "plain"', ["plain"]),
        ('HERE / ".words"', [".words"]),
        ('HERE.glob("*.txt")', ["words.txt"]),
        ('HERE.glob("data/*.txt")', ["data/words.txt"]),
        ('Path(__file__).with_suffix(".json")', ["add.json"]),
        ('"/plain"', []),
        ('"plain"', []),
        ('Path("/words.txt")', []),
        (repr("Answer with the number alone, " * 6), []),
        (repr("只回复数字" * 30), []),
        (repr("no \ud800 name"), []),
        ("lambda: __import__('a/b')", []),
    ],
)
def test_data_beside_one_file_counts_however_its_path_is_written(tmp_path, read, covered):
    code = FUNCTION.format(top=f"import os\nfrom pathlib import Path\nHERE = Path(__file__).parent\nDATA = {read}", late="pass")
    data = dict.fromkeys(["data/words.txt", "words.txt", "plain", ".words", "add.json", "other.json"], "1")
    put(tmp_path, {"add.py": code, **data})
    assert set(covered) <= set(names(tmp_path / "add.py")) <= {"add.py", "words.txt", *covered}
    assert covered or names(tmp_path / "add.py") == ["add.py"]


def test_a_module_under_a_computed_name_counts_if_loading_imports_it(tmp_path):
    top = "import importlib\nfor name in ('one', 'two'): importlib.import_module('.plug' + name, __package__)"
    put(tmp_path, {"add.py": FUNCTION.format(top=top, late="pass"), "plugone.py": "", "plugtwo.py": ""})
    assert names(tmp_path / "add.py") == ["add.py", "plugone.py", "plugtwo.py"]


def test_a_module_under_a_computed_name_is_refused_after_loading(tmp_path):
    top = "import importlib\ndef late(name): return importlib.import_module('.' + name, __package__)"
    put(tmp_path, {"add.py": FUNCTION.format(top=top, late="pass"), "plug.py": ""})
    env = loaded(tmp_path / "add.py")
    late = env.marked.grade.__self__.function.__globals__["late"]
    with pytest.raises(ImportError, match=r"plug.py` is imported under a computed name .* write `from . import plug`"):
        late("plug")
    assert [name for name, _ in files_of(env)] == ["add.py"]


def test_what_runs_later_does_not_change_a_fingerprint(tmp_path):
    put(tmp_path, {"add.py": FUNCTION.format(top="", late="import helper"), "helper.py": ""})
    env = loaded(tmp_path / "add.py")
    before = environment_fingerprint(env)
    assert len(sandlot.run(env, "scripted:golden", runs=tmp_path / "runs")) == 2
    assert environment_fingerprint(env) == before


def test_two_files_of_one_folder_have_each_their_own_files(tmp_path):
    put(
        tmp_path,
        {
            "add.py": FUNCTION.format(top="import a", late="pass"),
            "more.py": FUNCTION.format(top="import b", late="pass"),
            "a.py": "",
            "b.py": "",
        },
    )
    forget_modules(tmp_path)
    add, more = sandlot.load(tmp_path / "add.py"), sandlot.load(tmp_path / "more.py")
    assert [name for name, _ in files_of(add)] == ["a.py", "add.py"]
    assert [name for name, _ in files_of(more)] == ["b.py", "more.py"]


@pytest.mark.parametrize("form", [Form.FILE, Form.FOLDER])
def test_a_folder_is_covered_whole_and_with_what_it_imports_from_where_nothing_counts(tmp_path, form):
    folder = scaffold("notes", form, tmp_path)[0].parent
    file = folder / ("environment.py" if form is Form.FILE else "checks.py")
    put(
        folder,
        {"tests/wanted.py": "right = True", "docs/page.md": "", "README.md": "", "data/words.txt": "", "__pycache__/x.txt": ""},
    )
    (folder / "shared").symlink_to(put(tmp_path / "elsewhere", {"lines.txt": "1"}))
    (folder / "up").symlink_to(tmp_path)
    assert {"data/words.txt", "shared/lines.txt"} <= set(names(folder))
    assert not [name for name in names(folder) if name.startswith(("tests", "docs", "README", "__pycache__", "up"))]
    before = fingerprint(folder)
    put(tmp_path / "elsewhere", {"lines.txt": "2"})
    assert fingerprint(folder) != before
    file.write_text("from .tests import wanted\n" + file.read_text())
    assert "tests/wanted.py" in names(folder)


def installed(monkeypatch, root, module):
    """The environment as an installed package has it, found under `root`."""
    monkeypatch.syspath_prepend(root)
    for name in [name for name in sys.modules if name.partition(".")[0] == module.partition(".")[0]]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    entry = EntryPoint("add", f"{module}:add", "sandlot.environments")
    monkeypatch.setattr(loading, "entry_points", lambda group: [entry])
    return sandlot.load("add")


def test_an_installed_package_is_covered_by_its_folder_and_by_what_it_imports_from_the_rest(monkeypatch, tmp_path):
    put(
        tmp_path,
        {
            "acme_envs/__init__.py": "",
            "acme_envs/add/__init__.py": FUNCTION.format(top="from acme_envs.shared import rules", late="from ..late import x"),
            "acme_envs/add/words.txt": "",
            "acme_envs/add/tests/test_it.py": "",
            "acme_envs/late.py": "x = 1",
            "acme_envs/shared/__init__.py": "",
            "acme_envs/shared/rules.py": "",
            "acme_envs/another/__init__.py": "",
            "acme_other.py": "",
        },
    )
    (tmp_path / "acme-1.dist-info").mkdir()
    found = [name for name, _ in files_of(installed(monkeypatch, tmp_path, "acme_envs.add"))]
    assert found == ["../__init__.py", "../late.py", "../shared/__init__.py", "../shared/rules.py", "__init__.py", "words.txt"]


def test_an_installed_module_is_covered_with_what_was_installed_with_it(monkeypatch, tmp_path):
    put(
        tmp_path,
        {"add_env.py": FUNCTION.format(top="import add_rules, stranger", late="pass"), "add_rules.py": "", "stranger.py": ""},
    )
    folder = tmp_path / "add-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: add\nVersion: 1\n")
    (folder / "RECORD").write_text("add_env.py,,\nadd_rules.py,,\n")
    found = [name for name, _ in files_of(installed(monkeypatch, tmp_path, "add_env"))]
    assert found == ["add_env.py", "add_rules.py"]


def test_show_lists_the_files_that_count(tmp_path, capsys):
    put(tmp_path, {"add.py": FUNCTION.format(top="", late="import helper"), "helper.py": "", "other.py": ""})
    show_environment(str(tmp_path / "add.py"), json=False)
    assert "2 in the fingerprint: add.py, helper.py" in capsys.readouterr().out
