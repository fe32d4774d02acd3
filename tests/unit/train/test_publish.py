"""The engine that samples for a recipe."""

import pytest

from fakes.engine_twin import decoder, prompt
from sandlot.core.ports.model import Sampling
from sandlot.train.publish import open_publisher
from sandlot.train.recipe import Recipe


@pytest.mark.parametrize("speculate", ["off", "siblings"])
async def test_tokens_are_guessed_if_the_recipe_says_so(tmp_path, speculate):
    recipe = Recipe(name="n", env="sums.py", speculate=speculate)
    async with open_publisher(recipe, decoder(), tmp_path, tmp_path, time_s=60.0) as publisher:
        assert publisher.model.metrics()["tokens_per_pass"] == 1.0  # before the first token too
        for _ in range(3):
            await publisher.model.sample(prompt(0, 9), Sampling(max_tokens=24, temperature=0.0))
        assert (publisher.model.metrics()["guessed_tokens"] > 0) is (speculate == "siblings")
