import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.package import fetch_tree
from sandlot.interop.repositories.patches import patch_between, patched
from sandlot.interop.repositories.releases import entry_of
from sandlot.interop.repositories.site_folder import require_apart
from sandlot.interop.repositories.sources import read_tree
from sandlot.interop.repositories.swebench import checked_row
from worlds.repair import FILES, write_sdist, write_tree


def test_a_tree_says_where_its_modules_and_tests_are(tmp_path):
    tree = read_tree(write_tree(tmp_path))
    assert (tree.name, tree.version, tree.license) == ("ledger", "1.2", "MIT")
    assert (tree.modules, tree.tests, tree.paths) == (("src/ledger",), ("tests",), ("src",))
    assert tree.is_source("src/ledger/sums.py")
    assert not tree.is_source("src/ledger/conftest.py")
    assert not tree.is_source("tests/test_sums.py")


def test_requirements_of_tests_are_read_and_those_of_other_extras_are_not(tmp_path):
    root = write_tree(tmp_path)
    lines = [
        "Requires-Dist: six>=1; python_version < '4'",
        "Requires-Dist: freezegun ; extra == 'tests'",
        "Requires-Dist: sphinx; extra == 'docs'",
    ]
    (root / "PKG-INFO").write_text(FILES["PKG-INFO"] + "\n".join(lines) + "\n")
    tree = read_tree(root)
    assert (tree.requires, tree.optional) == (("six>=1 ; python_version < '4'", "freezegun"), ("sphinx",))


def test_other_extras_of_a_repository_are_optional(tmp_path):
    root = write_tree(tmp_path)
    (root / "PKG-INFO").unlink()
    (root / "setup.py").write_text(
        "setup(name='ledger', version='1', install_requires=['six'],\n"
        "extras_require={'test': ['a'], 'sky': ['ephem', 'a', 'six']})\n"
    )
    (root / "setup.cfg").write_text("[options.extras_require]\ndev =\n  b\nfast =\n  numba>=1\n  c\n")
    (root / "pyproject.toml").write_text("[project.optional-dependencies]\ntests = ['d']\nplots = ['e']\n")
    tree = read_tree(root)
    assert (set(tree.requires), set(tree.optional)) == ({"six", "a", "b", "d"}, {"ephem", "numba>=1", "c", "e"})


def test_a_distribution_without_tests_is_refused(tmp_path):
    files = {name: text for name, text in FILES.items() if not name.startswith("tests")}
    with pytest.raises(ConfigError, match="has no tests"):
        fetch_tree(str(write_sdist(tmp_path, files)), tmp_path / "out")


def test_a_distribution_whose_names_lead_out_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="outside of its folder"):
        fetch_tree(str(write_sdist(tmp_path, {**FILES, "../../evil.py": "x"})), tmp_path / "out")


@pytest.mark.parametrize("source", ["humanize", "==1.0", "a b==1", "../x==1"])
def test_a_package_is_named_with_its_version(source, tmp_path):
    with pytest.raises(ConfigError, match="NAME==VERSION"):
        fetch_tree(source, tmp_path)


@pytest.mark.parametrize(
    ("field", "value"), [("Version", "1/../../../evil"), ("Version", ".."), ("Name", "../evil"), ("Name", "a b")]
)
def test_a_name_or_version_that_leads_out_is_refused(field, value, tmp_path):
    root = write_tree(tmp_path)
    lines = [line for line in FILES["PKG-INFO"].splitlines() if not line.startswith(f"{field}:")]
    (root / "PKG-INFO").write_text("\n".join([f"{field}: {value}", *lines]) + "\n")
    with pytest.raises(ConfigError, match="no name and version"):
        read_tree(root)


def test_what_pytest_itself_needs_is_refused():
    with pytest.raises(ConfigError, match="pytest itself needs it"):
        require_apart("Pluggy")


def test_a_patch_between_files_is_applied_to_the_same_files():
    before = {"a.py": b"one\ntwo\n", "b.py": b"x\r\n\x0cy", "gone.py": b"1\n", "same.py": b"s\n"}
    after = {"a.py": b"one\nTWO\nthree", "b.py": b"x\r\n\x0cz", "new/c.py": b"n\n", "same.py": b"s\n"}
    assert patched(before, patch_between(before, after)) == after
    assert patched(after, patch_between(before, after), reverse=True) == before


def test_a_patch_may_rename_a_file_and_copy_another():
    patch = "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
    patch += "diff --git a/c.py b/d.py\nsimilarity index 100%\ncopy from c.py\ncopy to d.py\n"
    assert patched({"a.py": b"one\n", "c.py": b"two\n"}, patch) == {"b.py": b"one\n", "c.py": b"two\n", "d.py": b"two\n"}
    with pytest.raises(ConfigError, match="does not apply"):
        patched({"a.py": b"one\n"}, patch.replace("b.py", "../b.py"))


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+evil\n",
        "--- /dev/null\n+++ b//etc/evil\n@@ -0,0 +1 @@\n+evil\n",
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-other\n+two\n",
    ],
)
def test_a_patch_that_leads_out_or_does_not_fit_is_refused(patch):
    with pytest.raises(ConfigError, match="does not apply"):
        patched({"a.py": b"one\n"}, patch)


def test_the_entry_of_a_version_ends_at_the_next():
    text = "Changes\n=======\n\n1.10.0 (2026)\n-------------\n\n* new\n\n1.1.0 (2025)\n------------\n\n"
    text += "* Fix 2.0 thing\n- and 1.0.5\n\n1.0.0\n-----\n* old\n"
    assert entry_of(text, "1.1.0") == "* Fix 2.0 thing\n- and 1.0.5"
    assert entry_of(text, "3.0") == ""
    assert entry_of("## 2.1\n\n- x\n\n## 2.0\n- y\n", "2.1") == "- x"


ROW = {
    "instance_id": "o__r-1",
    "repo": "o/r",
    "base_commit": "a" * 40,
    "problem_statement": "It fails.",
    "FAIL_TO_PASS": '["t.py::test_a[x y]"]',
    "PASS_TO_PASS": [],
}


def test_lists_of_tests_may_be_json_or_lists():
    assert checked_row(ROW).FAIL_TO_PASS == ["t.py::test_a[x y]"]
    assert checked_row({**ROW, "FAIL_TO_PASS": ["t.py::test_b"]}).FAIL_TO_PASS == ["t.py::test_b"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"FAIL_TO_PASS": "[]"}, "no FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": "[1"}, "neither a list"),
        ({"FAIL_TO_PASS": ["test_x (module.Case)"]}, "not named as pytest"),
        ({"FAIL_TO_PASS": [["deep"]]}, "neither a list"),
        ({"patch": "x" * 2_000_000}, "more than 1,000,000"),
        ({"repo": 3}, "Expected `str`"),
        ({"problem_statement": " \n"}, "no problem_statement"),
        ({"version": "1/../../.."}, "write one such as"),
        ({"version": ".."}, "write one such as"),
    ],
)
def test_a_row_that_cannot_be_a_task_says_why(change, why):
    with pytest.raises(ConfigError, match=why):
        checked_row({**ROW, **change})
