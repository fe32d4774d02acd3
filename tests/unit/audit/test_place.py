"""Where a named environment lies: by the rule that `load` finds it by."""

import pytest

from sandlot.audit.reports.folder import place_of
from sandlot.audit.subjects.named import find_subject


@pytest.mark.parametrize(
    ("what", "place"),
    [(".", "env/environment.py"), ("../env", "env/environment.py"), ("../add", "add.py"), ("../add.py", "add.py")],
)
def test_a_path_is_found_from_inside_the_folder_too(tmp_path, monkeypatch, what, place):
    (tmp_path / "env").mkdir()
    for file in ("env/environment.py", "env/audit.toml", "add.py"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path / "env")
    subject = find_subject(what)
    assert place_of(what) == subject.place == str(tmp_path / place)
    found = subject.declarations
    assert (found is not None and found.resolve() == tmp_path / "env/audit.toml") is place.startswith("env")


def test_any_other_name_is_of_an_installed_one():
    assert place_of("no-such-environment") == "installed:no-such-environment"
