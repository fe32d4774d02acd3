"""How a world is named. The worlds themselves are in tests/foreign/interop/worlds_conformance.py, with the real package."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.gyms.source import ScoreRange, read_source


def test_our_options_and_the_worlds_arguments_are_told_apart():
    read = read_source("FrozenLake-v1?score=-1..1&seeds=3&view=ansi&is_slippery=false&map_name=8x8&desc=[1,2]")
    assert (read.env, read.seeds, read.view) == ("FrozenLake-v1", 3, "ansi")
    assert read.score_range == ScoreRange(-1.0, 1.0)
    assert read.arguments == {"is_slippery": False, "map_name": "8x8", "desc": [1, 2]}


def test_a_file_has_the_same_keys(tmp_path):
    file = tmp_path / "lake.toml"
    file.write_text('env = "FrozenLake-v1"\nscore = "0..1"\n[arguments]\nis_slippery = false\n')
    assert read_source(str(file)).arguments == {"is_slippery": False}


@pytest.mark.parametrize("score", ["", "5", "1..1", "2..1", "a..b", "0..", "..", "nan..1", "0..inf"])
def test_a_scale_that_is_none_is_refused(score):
    with pytest.raises(ConfigError, match="which return is worth 0"):
        _ = read_source(f"CartPole-v1?score={score}").score_range


@pytest.mark.parametrize(
    "source", ["", "?score=0..1", "A?view=smell", "A?seeds=0", "A?seeds=many", "A?steps=-1", "no-such-file.toml"]
)
def test_wrong_options_are_refused(source):
    with pytest.raises(ConfigError):
        read_source(source)


def test_an_unknown_key_of_a_file_is_refused(tmp_path):
    file = tmp_path / "lake.toml"
    file.write_text('env = "FrozenLake-v1"\nsize = 3\n')
    with pytest.raises(ConfigError, match="size"):
        read_source(str(file))


@pytest.mark.parametrize("line", ['env = "os:system"', 'env = "CartPole-v1"\npolicy = "os:system"'])
def test_a_file_that_names_code_is_refused(tmp_path, line):
    file = tmp_path / "hostile.toml"
    file.write_text(f'{line}\nscore = "0..1"\n[arguments]\ncommand = "touch {tmp_path}/ran"\n')
    with pytest.raises(ConfigError, match="may name only a registered id"):
        read_source(str(file))
