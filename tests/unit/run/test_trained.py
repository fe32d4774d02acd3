"""A model's folder says in which setting it was trained, and a run in another one is refused unless it is named."""

from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.run.manifest import Fingerprints, RunFacts
from sandlot.run.trained import read_trained, require_same_setting, setting_differences, training_record
from sandlot.wiring.config import ModelConfig

SETTING = {"harness": "tool-loop", "renderer": "chatml", "limits": {"turns": 8, "tokens": None}, "system": ""}
LOOK = ToolSpec(name="look", description="Look.", parameters={})


def facts(setting: str = "a", *, environment: str = "e", tools: tuple[ToolSpec, ...] = (LOOK,), **changed) -> RunFacts:
    return RunFacts(Fingerprints(environment=environment, setting=setting, tasks="t"), tools, {**SETTING, **changed})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = write_tiny(tmp_path / "model")
    (place / "sandlot.json").write_bytes(training_record([("chores", facts())], "demo", 16).encoded())
    return place


def found(folder: Path, now: RunFacts, environment: str = "chores") -> tuple[str, ...]:
    return setting_differences(ModelConfig(spec=f"hf:{folder}"), now, environment)


def test_the_record_is_read_back(folder):
    assert read_trained(folder) == training_record([("chores", facts())], "demo", 16)


def test_the_same_setting_differs_in_nothing(folder):
    assert found(folder, facts()) == ()


@pytest.mark.parametrize(
    ("now", "environment", "said"),
    [
        (facts("b"), "letters", ["environment `letters` instead of `chores`"]),
        (facts("b", environment="f"), "chores", ["environment `chores`: its files or its image have changed since"]),
        (facts("b", harness="command"), "chores", ["harness `command` instead of `tool-loop`"]),
        (facts("b", renderer="llama3"), "chores", ["renderer `llama3` instead of `chatml`"]),
        (facts("b", limits={"turns": 9, "tokens": None}), "chores", ["limits: turns `9` instead of `8`"]),
        (facts("b", user=["scripted:persona", {}]), "chores", ['user `["scripted:persona",{}]` instead of `none`']),
        (facts("b", tools=()), "chores", ["without tool `look`"]),
        (
            facts("b", tools=(msgspec.structs.replace(LOOK, description="See."), msgspec.structs.replace(LOOK, name="dig"))),
            "chores",
            ["with the new tool `dig`", "with another description or other arguments of tool `look`"],
        ),
        (facts("b"), "chores", ["the fingerprint of the setting"]),
    ],
)
def test_what_differs_is_named(folder, now, environment, said):
    assert list(found(folder, now, environment)) == said


def test_another_setting_is_refused_unless_it_is_named():
    model = ModelConfig(spec="hf:somewhere")
    with pytest.raises(ConfigError, match=r"model `hf:somewhere` was trained in another setting: limits.*`--other-setting`"):
        require_same_setting(model, ["limits: turns `9` instead of `8`"], named=False)
    require_same_setting(model, ["limits: turns `9` instead of `8`"], named=True)
    require_same_setting(model, [], named=False)


def test_a_model_that_says_nothing_and_one_without_a_folder_are_not_compared(tmp_path):
    assert found(write_tiny(tmp_path / "silent"), facts("b")) == ()
    assert setting_differences(ModelConfig(spec="scripted:golden"), facts("b"), "chores") == ()


def test_a_served_model_is_compared_by_the_folder_of_its_tokenizer(folder):
    served = ModelConfig(spec="vllm:m@http://127.0.0.1:9", tokenizer=str(folder))
    assert setting_differences(served, facts("b", harness="command"), "chores") == ("harness `command` instead of `tool-loop`",)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"\xff\xfe", b"{}", b'{"format": 2}', b"[" * 100_000, b" " * (2**22 + 1), b'{"environment": 5}']
)
def test_a_damaged_record_is_an_error_that_says_what_to_do(folder, text):
    (folder / "sandlot.json").write_bytes(text)
    with pytest.raises(ConfigError, match=r"sandlot\.json` is the record of the model's training.*delete it"):
        found(folder, facts())


def test_a_record_that_is_a_link_to_nothing_is_not_taken_for_none(folder):
    (folder / "sandlot.json").unlink()
    (folder / "sandlot.json").symlink_to("gone.json")
    with pytest.raises(ConfigError, match=r"sandlot\.json` is the record of the model's training"):
        found(folder, facts("b"))


def test_what_a_strangers_record_says_is_shown_as_printable_text(folder):
    hostile = training_record([("chores", facts("c", harness="\x1b[2Jloop\u202e" + "x" * 10_000))], "demo", 1)
    (folder / "sandlot.json").write_bytes(hostile.encoded())
    (said,) = found(folder, facts())
    assert said.isprintable()
    assert len(said) < 300
