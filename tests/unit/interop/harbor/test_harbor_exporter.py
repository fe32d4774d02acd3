"""What a Harbor task cannot express is refused with the reason, before anything is played."""

import shutil
from pathlib import Path

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.exporting import export_environment
from worlds.folders import write_environment

SUMS = Path(__file__).parents[3] / "foreign" / "interop" / "sums"


def copy(tmp_path):
    return Path(shutil.copytree(SUMS, tmp_path / "sums"))


@pytest.mark.parametrize("kind", ["harbor", "terminal-bench"])
def test_checks_that_read_the_answer_are_refused(tmp_path, kind):
    env = copy(tmp_path)
    (env / "checks.py").write_text(
        (env / "checks.py").read_text() + "\n\ndef said(evidence, task):\n    return evidence.answer\n"
    )
    with pytest.raises(ConfigError, match=r"reads `evidence\.answer`"):
        export_environment(kind, env, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tools_of_its_own_are_refused(tmp_path):
    env = copy(tmp_path)
    (env / "tools.py").write_text('def look(world) -> str:\n    """Look."""\n    return "x"\n')
    with pytest.raises(ConfigError, match="tools of its own: look"):
        export_environment("harbor", env, tmp_path / "out")


def test_an_environment_without_a_sandbox_or_in_one_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no sandbox"):
        export_environment("harbor", write_environment(tmp_path / "plain"), tmp_path / "out")
    with pytest.raises(ConfigError, match="not a folder environment"):
        export_environment("harbor", "arithmetic", tmp_path / "out")


def test_an_unknown_kind_is_an_error_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="did you mean `harbor`"):
        export_environment("harbour", "arithmetic", tmp_path / "out")


def test_what_is_no_export_is_an_error_with_the_command(tmp_path):
    with pytest.raises(ConfigError, match="sandlot serve ENV"):
        export_environment("mcp", "arithmetic", tmp_path / "out")
