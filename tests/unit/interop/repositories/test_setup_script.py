import pytest

from sandlot.interop.repositories.setup_script import setup_arguments, strings
from sandlot.interop.repositories.sources import read_tree

SCRIPT = """
import os, sys
from setuptools import setup
open({ran!r}, "w").write("evil")
TESTS = ["pytz", "nose" if sys.version_info[0] == 2 else "mock"]
EXTRAS = {{"reco": ["simplejson"], "tests": TESTS, "docs": ["sphinx"], "odd": read("x")}}
EXTRAS["dev"] = EXTRAS["reco"] + EXTRAS["tests"]
options = dict(license="MIT", install_requires=["six>=1", *TESTS, os.environ["X"]])
setup(name="ledger", version=find_version(), extras_require=EXTRAS, tests_require=TESTS, **options)
"""


def test_a_setup_script_is_read_and_not_run(tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "setup.py").write_text(SCRIPT.format(ran=str(ran)))
    read = setup_arguments(tmp_path / "setup.py")
    assert read["install_requires"] == ["six>=1", "pytz"]
    assert read["extras_require"] == {
        "reco": ["simplejson"],
        "tests": ["pytz"],
        "docs": ["sphinx"],
        "dev": ["simplejson", "pytz"],
    }
    assert (read["license"], "version" in read) == ("MIT", False)
    assert not ran.exists()


def test_a_repository_requires_what_its_setup_script_says(tmp_path):
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "__init__.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "unittest_sums.py").write_text("def test_sums(): pass\n")
    (tmp_path / "setup.py").write_text(SCRIPT.format(ran=str(tmp_path / "ran")))
    tree = read_tree(tmp_path, "ledger")
    assert tree.requires == ("six>=1", "pytz", "simplejson")
    assert (tree.license, tree.tests) == ("MIT", ("tests",))


@pytest.mark.parametrize(
    "text",
    [
        "a = ['x']\n" + "a = a + a\n" * 60 + "setup(install_requires=a)",
        "a = 'x'\n" + "a = a + a\n" * 60 + "setup(install_requires=a)",
        "setup(install_requires=" + "(" * 5000 + ")" * 5000 + ")",
        "setup(install_requires=" + "+".join(["[]"] * 20_000) + ")",
        "setup(" + "x, " * 200_000 + ")",
        "a = {}\na['a'] = a\nsetup(**a)",
        "setup(install_requires=3, **4)",
        "setup(\0)",
        "not python (",
        "",
    ],
)
def test_a_hostile_script_gives_little_or_nothing(text, tmp_path):
    (tmp_path / "setup.py").write_text(text)
    assert list(strings(setup_arguments(tmp_path / "setup.py").get("install_requires"))) == []


def test_a_script_that_is_not_there_says_nothing(tmp_path):
    assert setup_arguments(tmp_path / "setup.py") == {}
