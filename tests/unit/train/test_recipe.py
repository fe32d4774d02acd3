"""A recipe written down: enough to know it again, and nothing that opens a door."""

import msgspec
import pytest

from sandlot.core.errors import ConfigError
from sandlot.train.algorithms.algorithms import Imitate, PolicyGradient, Prefer
from sandlot.train.algorithms.losses import Clip, Reinforce
from sandlot.train.algorithms.shaping import Shaped, Shorter
from sandlot.train.learning_policy import require_one_process
from sandlot.train.own_policy import OwnPolicy
from sandlot.train.publish import served_config
from sandlot.train.recipe import FILE, Recipe, as_plain_data, require_same_recipe, write_recipe
from sandlot.train.trainer import Optimisation
from sandlot.train.training_env import TrainingEnv

SERVER = "vllm:m@http://user:secret@host:8000"
TEACHER = "openai:t@https://user:secret@host/v1?key=secret"


def recipe(**changed) -> Recipe:
    plain = Recipe(name="n", env="sums.py", lora=2, server=SERVER, teacher=TEACHER, algorithm=Imitate())
    return plain.but(**changed)


def test_passwords_in_addresses_are_not_written_down(tmp_path):
    write_recipe(recipe(), tmp_path)
    written = (tmp_path / FILE).read_text()
    assert "secret" not in written
    told = as_plain_data(recipe())
    assert (told["server"], told["teacher"]) == ("vllm:m@http://host:8000", "openai:t@https://host/v1")
    assert as_plain_data(recipe(server=None, teacher="scripted:golden"))["teacher"] == "scripted:golden"
    assert as_plain_data(recipe(seats={"seller": TEACHER}))["seats"] == {"seller": "openai:t@https://host/v1"}


def test_a_run_goes_on_with_its_addresses_or_with_another_password_but_not_with_another_teacher(tmp_path):
    write_recipe(recipe(), tmp_path)
    require_same_recipe(recipe(), tmp_path)
    require_same_recipe(recipe(teacher=TEACHER.replace("secret", "other")), tmp_path)
    with pytest.raises(ConfigError, match="another teacher"):
        require_same_recipe(recipe(teacher=TEACHER.replace("host", "elsewhere")), tmp_path)


def test_a_run_that_was_begun_when_passwords_were_written_down_goes_on(tmp_path):
    (tmp_path / FILE).write_bytes(msgspec.json.encode({**as_plain_data(recipe()), "teacher": TEACHER, "server": SERVER}))
    require_same_recipe(recipe(), tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: recipe(lora=None),
        lambda: Recipe(name="n", env="sums.py", teacher=TEACHER),
        lambda: served_config(recipe(server=SERVER.replace("vllm", "sglang")), 1.0),
    ],
)
def test_a_refusal_does_not_tell_a_password(wrong):
    with pytest.raises(ConfigError, match=r"@https?://host") as raised:
        wrong()
    assert "secret" not in str(raised.value)


def test_guesses_are_refused_where_a_server_samples(tmp_path):
    with pytest.raises(ConfigError, match="not for a server: leave it out"):
        recipe(speculate="siblings")
    write_recipe(recipe(server=None), tmp_path)
    require_same_recipe(recipe(server=None, speculate="siblings"), tmp_path)  # it only sets the pace


def test_staleness_without_a_correction_is_refused_with_the_fix():
    with pytest.raises(
        ConfigError,
        match=r"staleness is 2, and the loss `Clip` .*`algorithm=PolicyGradient\(loss=Clip\(0\.2, 0\.28\)\.for_staleness\(2\)\)`",
    ):
        Recipe(name="n", env="sums.py", staleness=2)
    with pytest.raises(ConfigError, match="the loss `Reinforce`"):
        Recipe(
            name="n", env="sums.py", staleness=1, algorithm=Shaped(algorithm=PolicyGradient(loss=Reinforce()), shape=Shorter())
        )
    Recipe(name="n", env="sums.py", staleness=4, algorithm=PolicyGradient(loss=Clip(0.2, 0.28, against="behaviour")))
    Recipe(name="n", env="sums.py", staleness=4, algorithm=PolicyGradient(loss=Clip(0.2, 0.28).for_staleness(4)))
    Recipe(name="n", env="sums.py", staleness=4, algorithm=Imitate())


def test_a_step_is_not_compiled_beside_sampling_on_a_cpu():
    algorithm, compiled = PolicyGradient(loss=Clip().for_staleness(1)), Optimisation(compiled=True)
    with pytest.raises(ConfigError, match="staleness is 1, and `compiled` on a CPU would disturb the sampling"):
        Recipe(name="n", env="sums.py", staleness=1, algorithm=algorithm, optimisation=compiled)
    Recipe(name="n", env="sums.py", staleness=1, algorithm=algorithm, optimisation=compiled, device="cuda")
    Recipe(name="n", env="sums.py", staleness=1, algorithm=algorithm, optimisation=compiled, server="vllm:m@http://h", lora=8)
    Recipe(name="n", env="sums.py", optimisation=compiled)


def own(**changed) -> Recipe:
    seats = {"seller": OwnPolicy(optimisation=Optimisation(learning_rate=1e-3)), "buyer": OwnPolicy(model="smollm2")}
    return Recipe(name="n", env="haggle", seats=seats).but(**changed)


def test_a_policy_of_its_own_may_have_its_own_model_and_optimisation():
    recipe = own()
    assert list(recipe.own_policies) == ["seller", "buyer"]
    assert [recipe.for_policy(name).model for name in ("", "seller", "buyer")] == ["rookie", "rookie", "smollm2"]
    rates = [recipe.for_policy(name).optimisation.learning_rate for name in ("", "seller", "buyer")]
    assert rates == [1e-5, 1e-3, 1e-5]


def test_a_run_goes_on_with_the_same_policies_only(tmp_path):
    write_recipe(own(), tmp_path)
    require_same_recipe(own(), tmp_path)
    faster = OwnPolicy(optimisation=Optimisation(learning_rate=1e-3, compiled=False))
    require_same_recipe(own(seats={**own().seats, "seller": faster}), tmp_path)
    for other in ({"seller": OwnPolicy()}, {"seller": "rookie", "buyer": "rookie"}, {**own().seats, "buyer": OwnPolicy()}, None):
        with pytest.raises(ConfigError, match="another seats"):
            require_same_recipe(own(seats=other), tmp_path)


ONE_OF_TWO = TrainingEnv(env="haggle", seats={"buyer": OwnPolicy()})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"env": None, "seats": None, "envs": [ONE_OF_TWO, "drill"]}, "train them in one"),
        ({"lora": 2, "server": SERVER}, "leave `server` out"),
        ({"pairs": "pairs.jsonl", "algorithm": Prefer()}, "leave one of the two out"),
    ],
)
def test_what_several_policies_cannot_do_is_refused(changed, says):
    with pytest.raises(ConfigError, match=says):
        own(**changed)


def test_a_seat_that_is_neither_a_model_nor_a_policy_is_refused():
    with pytest.raises(ConfigError, match=r"seat `buyer` is 3; name a model, or give `OwnPolicy\(\)`"):
        own(seats={"buyer": 3})


def test_several_processes_are_refused_for_several_policies(monkeypatch):
    require_one_process(own())
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("WORLD_SIZE", "2")
    require_one_process(own(seats=None))
    with pytest.raises(ConfigError, match="torchrun started 2; start it without torchrun"):
        require_one_process(own())


def test_how_a_policy_of_an_environment_is_compiled_may_change(tmp_path):
    def one(**fields) -> Recipe:
        own = OwnPolicy(optimisation=Optimisation(**fields))
        return Recipe(name="n", envs=[TrainingEnv(env="haggle", seats={"buyer": own, "seller": "scripted:golden"})])

    write_recipe(one(), tmp_path)
    require_same_recipe(one(compiled=False), tmp_path)
    with pytest.raises(ConfigError, match="was begun with another envs"):
        require_same_recipe(one(learning_rate=1.0), tmp_path)
