"""What a manifest stores of a run's models: no password, user or query of a URL."""

import msgspec
import pytest

from sandlot.run.config import RunConfig
from sandlot.run.manifest import public_config
from sandlot.wiring.config import ModelConfig

SECRET = ModelConfig(spec="openai:m@http://me:hidden@host:8000/v1?key=hidden")
PLAIN = ModelConfig(spec="scripted:golden")


@pytest.mark.parametrize("place", ["model", "judge", "user", "seats"])
def test_the_address_of_a_model_is_stored_without_its_secrets(place):
    given = {"model": PLAIN, place: {"buyer": SECRET} if place == "seats" else SECRET}
    stored = msgspec.json.encode(public_config(RunConfig(env="e", **given))).decode()
    assert "openai:m@http://host:8000/v1" in stored
    assert "hidden" not in stored
    assert "me:" not in stored


def test_what_holds_no_secret_is_stored_as_it_is():
    config = RunConfig(env="e", model=PLAIN, judge=PLAIN, seed=3)
    assert public_config(config) == config
