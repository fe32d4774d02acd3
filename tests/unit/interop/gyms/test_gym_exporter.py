"""Packages for Gymnasium and PettingZoo. tests/foreign/interop/gymnasium_conformance.py uses them with the real libraries."""

import tomllib
from pathlib import Path

import pytest

from sandlot import Environment, load
from sandlot.core.errors import ConfigError
from sandlot.interop.exporting import export_environment
from worlds.folders import SHOP

ENVIRONMENTS = Path(__file__).parents[4] / "environments"


@pytest.mark.parametrize("kind", ["gymnasium", "pettingzoo"])
def test_a_package_has_the_environment_in_it_and_names_what_it_needs(kind, tmp_path):
    written = export_environment(kind, ENVIRONMENTS / "arithmetic", tmp_path / "out")
    module = tmp_path / "out" / f"sandlot_{kind}_arithmetic"
    assert load(module / "environment").name == "arithmetic"
    assert len(written.tasks) == 480
    project = tomllib.loads((tmp_path / "out" / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == [f"sandlot[{kind}]"]
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [module.name]
    compile((module / "__init__.py").read_text(), "x", "exec")


def test_a_user_that_a_model_plays_is_for_pettingzoo_only(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "environment.py").write_text(SHOP)
    with pytest.raises(ConfigError, match="export it as `pettingzoo`"):
        export_environment("gymnasium", tmp_path / "shop", tmp_path / "gym")
    assert len(export_environment("pettingzoo", tmp_path / "shop", tmp_path / "zoo").tasks) == 1


def test_what_a_package_cannot_have_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"tasks=\[\.\.\.\]"):
        export_environment("gymnasium", ENVIRONMENTS / "arithmetic", tmp_path / "out", limit=2)
    env = Environment("loose")
    env.tasks(lambda rng: iter(()))
    with pytest.raises(ConfigError):
        export_environment("gymnasium", env, tmp_path / "out")
    assert not (tmp_path / "out").exists()
