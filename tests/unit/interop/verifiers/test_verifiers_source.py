"""How environments of verifiers are named."""

import sys

import pytest

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.interop.verifiers.importer import _surveyed
from sandlot.interop.verifiers.source import read_source


def test_a_name_is_a_package_and_other_keys_are_arguments():
    named = read_source("reverse-text?split=eval&score=0..1.5&variables=A,B&count=3&name=x&flag=true")
    assert (named.module, named.path, named.python) == ("reverse_text", "", sys.executable)
    assert (named.split, named.score, named.variables) == ("eval", (0.0, 1.5), ("A", "B"))
    assert named.arguments == {"count": 3, "name": "x", "flag": True}


def test_a_path_is_a_file_or_a_folder_with_a_module_of_its_name(tmp_path):
    (tmp_path / "my-env").mkdir()
    (tmp_path / "my-env" / "my_env.py").write_text("")
    assert (read_source(f"{tmp_path}/my-env").module, read_source(f"{tmp_path}/my-env").path) == (
        "my_env",
        f"{tmp_path}/my-env",
    )
    assert read_source(f"{tmp_path}/my-env/my_env.py") == read_source(f"{tmp_path}/my-env")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "names no environment"),
        ("?split=eval", "names no environment"),
        ("x?split=test", "train, eval or all"),
        ("x?score=1", "no range"),
        ("x?score=1..1", "no range"),
        ("x?score=0..inf", "no range"),
        ("./nothing", "no file or folder"),
        ("/", "has neither"),
    ],
)
def test_what_is_wrong_is_named(source, words):
    with pytest.raises(ConfigError, match=words):
        read_source(source)


class _Process:
    """The package's process; its train rows cannot be listed."""

    alive = True

    def ask(self, kind, *, within_s, **given):
        if kind == "rows" and given["split"] == "train":
            raise AuthorError("no train set")
        if kind == "rows":
            return {"rows": [{"answer": "4"}, None], "reasons": ["", "its answer is no text"]}
        return {"opening": {"messages": [{"role": "user", "text": "2+2?"}], "tools": []}, "golden": "4"}


def test_a_split_without_rows_is_left_out_and_the_other_is_taken():
    taken, left_out = _surveyed(_Process(), read_source("reverse-text?split=all"), 1.0, None)
    assert [(row.split, row.index, row.content) for row in taken] == [("eval", 0, {"answer": "4"})]
    assert [(each.what, each.why) for each in left_out] == [
        ("train rows", "no train set"),
        ("eval row 1", "its answer is no text"),
    ]
