"""What TRL is given, without TRL: a trainer here is what our functions look at. `make test-trl` has the real one."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from builders.tiny_models import write_tiny
from sandlot import Ask, Environment, Limits, Run, Score, Task, World, environment
from sandlot.core.errors import ConfigError, HarnessError, SandboxError
from sandlot.core.trace import Failed
from sandlot.env.module import load_module
from sandlot.interop.driven import OVER
from sandlot.interop.trl import open_for_trl
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.layout import weights_of
from sandlot.train.rows import rows_of

pytestmark = pytest.mark.timeout(300)
LETTERS = load_module(Path(__file__).parents[2] / "worlds" / "letters.py").env


@environment("digits", tasks=20)
def digits(rng):
    answer = yield Ask(f"Say {rng.randrange(1000)}.")
    if answer == "break":
        raise OSError("the grader's disk is full")
    yield Score(answer.isdigit())


def dial(*, broken=False):
    """A dial to be turned to five in at most four turns."""
    env = Environment("dial", limits=Limits(turns=4))

    @env.tasks
    def tasks(rng):
        for number in range(20):
            yield Task(f"dial-{number}", prompt="Turn the dial to five.")

    @env.tool
    async def turn(world: World, by: int) -> str:
        """Turn the dial and read it."""
        if broken:
            raise SandboxError("the machine is gone")
        world.state["value"] = world.state.get("value", 0) + by
        return f"The dial shows {world.state['value']}."

    @env.check(points=1)
    def shows_five(evidence, task):
        return evidence.state.get("value") == 5

    return env


class Network:
    """A model as transformers holds it: Hugging Face's names, and a tied head that is named too."""

    def __init__(self, folder):
        self.decoder = load_folder(folder, dtype=torch.float32)

    def parameters(self):
        return self.decoder.parameters()

    def state_dict(self):
        weights = weights_of(self.decoder)
        return weights | {"lm_head.weight": weights["model.embed_tokens.weight"]} if self.decoder.shape.tied else weights


def trainer_of(folder, **changed):
    network = Network(folder)
    settings = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    return SimpleNamespace(
        model=network,
        accelerator=SimpleNamespace(num_processes=1, unwrap_model=lambda model: model),
        state=SimpleNamespace(global_step=0),
        max_completion_length=8,
        **settings | changed,
    )


def test_rollouts_are_the_traces_tokens_with_what_was_sampled_marked(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    prompts = [[{"role": "user", "content": "", "task": name}] for name in train_tasks(LETTERS)[:3] * 2]
    with open_for_trl(LETTERS, run=tmp_path / "run", model=f"hf:{folder}") as sandlot:
        played = sandlot.rollouts(prompts, trainer_of(folder))
        rewards = sandlot.reward(completions=[None] * 6, task=[""] * 6, sandlot_reward=played["sandlot_reward"])
    assert rewards == played["sandlot_reward"]
    run = Run(tmp_path / "run")
    assert sorted((row.task, row.rollout) for row in run.rows) == sorted((p[0]["task"], n) for n in (0, 1) for p in prompts[:3])
    for place, prompt in enumerate(prompts):
        trace = run.trace(prompt[0]["task"], place // 3)
        (row,) = rows_of(trace)
        assert played["prompt_ids"][place] + played["completion_ids"][place] == row.ids.tolist()
        assert played["env_mask"][place] == [1] * len(played["completion_ids"][place])
        assert played["logprobs"][place] == row.logprobs[row.trained].tolist()
        assert rewards[place] == trace.outcome.score.value


def test_the_weights_are_those_the_trainer_has_at_that_step(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    prompts = [[{"role": "user", "content": "", "task": train_tasks(LETTERS)[0]}]] * 4
    with open_for_trl(LETTERS, run=tmp_path / "run", model=f"hf:{folder}") as sandlot:
        trainer = trainer_of(folder)
        sandlot.rollouts(prompts, trainer)
        with torch.no_grad():
            trainer.model.decoder.norm.weight.mul_(1000.0)  # far surer of itself
        trainer.state.global_step = 5
        surer = sandlot.rollouts(prompts, trainer)
    traces = list(Run(tmp_path / "run"))
    versions = {trace.rollout: {version for row in rows_of(trace) for version in row.versions[row.trained]} for trace in traces}
    assert versions == {number: {0 if number < 4 else 5} for number in range(8)}
    assert max(abs(value) for logprobs in surer["logprobs"] for value in logprobs) < 1.0


def test_a_failed_rollout_has_no_reward(tmp_path):
    said = {}
    with open_for_trl(digits, run=tmp_path / "run") as sandlot:
        names = train_tasks(digits)[:4]
        rewards = sandlot.reward(
            completions=["12", [{"role": "assistant", "content": "twelve"}], "break", ""],
            task=names,
            log_metric=lambda name, value: said.update({name: value}),
        )
    assert rewards == [1.0, 0.0, None, 0.0]
    assert said == {"sandlot/failed": 0.25}
    assert [trace.task for trace in Run(tmp_path / "run") if isinstance(trace.outcome, Failed)] == [names[2]]


def test_an_environment_that_keeps_failing_stops_the_trainer_with_the_reason(tmp_path):
    with open_for_trl(digits, run=tmp_path / "run") as sandlot, pytest.raises(HarnessError, match="disk is full"):
        sandlot.reward(completions=["break"] * 16, task=train_tasks(digits)[:16])


def test_the_trainers_own_loop_plays_an_ordinary_rollout(tmp_path):
    with open_for_trl(dial(), run=tmp_path / "run") as sandlot:
        names = train_tasks(dial())[:3]
        members = [sandlot.environment() for _ in names]
        for member, name in zip(members, names, strict=True):
            assert member.reset(task=name, prompt=[]) is None
        assert members[0].turn(by=2) == "The dial shows 2."
        assert members[0].turn(by=3) == "The dial shows 5."
        assert "by" in members[1].turn(bye=3)  # what is wrong with a call is told, as anywhere
        spoken = [[{"role": "tool", "content": ""}, {"role": "assistant", "content": word}] for word in ("five", "five", "5")]
        assert sandlot.reward(completions=spoken, task=names, environments=members) == [1.0, 0.0, 0.0]
    traces = {trace.task: trace for trace in Run(tmp_path / "run")}
    assert [traces[name].num_turns for name in names] == [3, 2, 1]
    assert traces[names[0]].answer == "five"
    assert not traces[names[0]].trainable


def test_the_trainers_own_loop_is_told_when_a_limit_has_ended_the_rollout(tmp_path):
    with open_for_trl(dial(), run=tmp_path / "run") as sandlot:
        member = sandlot.environment()
        member.reset(task=train_tasks(dial())[0])
        said = [member.turn(by=1) for _ in range(5)]
        assert said[-2:] == [OVER, OVER]
        assert sandlot.reward(completions=["5"], task=["-"], environments=[member]) == [0.0]


def test_a_tool_that_breaks_leaves_the_trainers_rollout_without_a_reward(tmp_path):
    with open_for_trl(dial(broken=True), run=tmp_path / "run") as sandlot:
        member = sandlot.environment()
        member.reset(task=train_tasks(dial())[0])
        assert member.turn(by=5) == OVER
        assert sandlot.reward(completions=["5"], task=["-"], environments=[member]) == [None]


def test_a_rollout_given_up_by_the_trainer_leaves_nothing_behind(tmp_path):
    with open_for_trl(dial(), run=tmp_path / "run") as sandlot:
        member = sandlot.environment()
        for _ in range(3):
            member.reset(task=train_tasks(dial())[0])
            member.turn(by=5)
        assert sandlot.reward(completions=["5"], task=["-"], environments=[member]) == [1.0]
        member.reset(task=train_tasks(dial())[1])
        member.turn(by=5)
    assert len(Run(tmp_path / "run")) == 1


def test_going_on_in_the_same_run_doubles_no_rollout(tmp_path):
    names = train_tasks(digits)[:2]
    for _ in range(2):
        with open_for_trl(digits, run=tmp_path / "run") as sandlot:
            sandlot.reward(completions=["1", "2"], task=names)
    assert sorted((row.task, row.rollout) for row in Run(tmp_path / "run").rows) == sorted((n, i) for n in names for i in (0, 1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"min_p": 0.1}, "`min_p` is 0.1"), ({"repetition_penalty": 1.2}, "`repetition_penalty` is 1.2")],
)
def test_what_the_engine_does_not_sample_with_is_refused(tmp_path, changed, said):
    folder = write_tiny(tmp_path / "tiny")
    with open_for_trl(LETTERS, run=tmp_path / "run", model=f"hf:{folder}") as sandlot, pytest.raises(ConfigError, match=said):
        sandlot.rollouts([[{"task": train_tasks(LETTERS)[0]}]], trainer_of(folder, **changed))


def test_held_out_and_unknown_tasks_and_missing_models_are_refused(tmp_path):
    with open_for_trl(digits, run=tmp_path / "run") as sandlot:
        with pytest.raises(ConfigError, match="is none of the"):
            sandlot.reward(completions=["1"], task=["no-such-task"])
        with pytest.raises(ConfigError, match="`rollouts` needs the model"):
            sandlot.rollouts([[{"task": train_tasks(digits)[0]}]], trainer_of(write_tiny(tmp_path / "tiny")))


def train_tasks(env):
    from sandlot.core.types import Split
    from sandlot.env.taskset import tasks_of

    return [task.id for task in tasks_of(env, Split.TRAIN)]
