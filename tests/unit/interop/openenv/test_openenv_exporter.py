"""Folders for OpenEnv. tests/foreign/interop/openenv_conformance.py serves them with openenv-core's own server."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from sandlot import load
from sandlot.core.errors import ConfigError
from sandlot.core.syntax import parse_python
from sandlot.interop.exporting import export_environment
from worlds.folders import SHOP

ENVIRONMENTS = Path(__file__).parents[4] / "environments"


def test_a_folder_has_what_openenv_init_writes_and_the_environment_in_it(tmp_path):
    folder = tmp_path / "out"
    written = export_environment("openenv", ENVIRONMENTS / "arithmetic", folder)
    assert len(written.tasks) == 480
    assert load(folder / "environment").name == "arithmetic"
    assert "app: server.app:app\n" in (folder / "openenv.yaml").read_text()
    assert (folder / "server" / "Dockerfile").is_file()
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"server": "sandlot_arithmetic_env.server.app:main"}
    for file in ("models.py", "server/app.py"):
        names = {node.name for node in parse_python((folder / file).read_text()).body if isinstance(node, ast.ClassDef)}
        assert any(name.startswith("Arithmetic") for name in names)


def test_its_wheel_has_the_environment_in_it(tmp_path):
    export_environment("openenv", ENVIRONMENTS / "arithmetic", tmp_path / "out")
    build = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    names = set(zipfile.ZipFile(tmp_path / "out" / done.stdout.split()[-1]).namelist())
    files = {"__init__.py", "models.py", "server/app.py", "environment/environment.py"}
    assert {f"sandlot_arithmetic_env/{file}" for file in files} <= names


def test_what_openenv_cannot_have_is_refused(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "environment.py").write_text(SHOP)
    with pytest.raises(ConfigError, match="a user that a model plays"):
        export_environment("openenv", tmp_path / "shop", tmp_path / "out")
    with pytest.raises(ConfigError, match="names one"):
        export_environment("openenv", ENVIRONMENTS / "arithmetic", tmp_path / "out", limit=2)
    assert not (tmp_path / "out").exists()
