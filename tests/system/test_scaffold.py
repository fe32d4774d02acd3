"""What `sandlot new` creates is sound: its audit says SHIP, and every file its README names is there."""

import re

import pytest

from drive.command_line import started

pytestmark = [pytest.mark.system, pytest.mark.core, pytest.mark.timeout(300)]


@pytest.mark.parametrize("form", ["function", "file", "folder"])
def test_a_new_environment_ships_and_its_readme_is_true(tmp_path, form):
    started("new", "fresh", "--form", form, cwd=tmp_path)
    place = tmp_path / "environments" / "fresh"
    named = re.findall(r"`([\w/]+\.(?:py|toml|jsonl|json))`", (place / "README.md").read_text())
    assert named
    assert [name for name in named if not (place / name).exists()] == []
    audited = started("audit", place, "--json", cwd=tmp_path, patience_s=280)
    assert (audited.code, audited.json["verdict"]) == (0, "SHIP")
