"""TRL's GRPOTrainer on environments of ours: in one message, and with tools in sandboxes. `trl.sh` runs it where TRL is."""

import math
from itertools import count
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from sandlot import Ask, Run, Score, environment
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.trace import Failed, Scored
from sandlot.interop.trl import open_for_trl

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
GROUP = 4


def grpo(place, sandlot, *, steps=2, **given):
    """A trainer of four groups a step."""
    config = GRPOConfig(
        output_dir=str(place / "out"),
        max_steps=steps,
        per_device_train_batch_size=4 * GROUP,
        num_generations=GROUP,
        max_completion_length=48,
        learning_rate=1e-3,
        beta=0.0,
        loss_type="dapo",
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    return GRPOTrainer(
        model=str(sandlot.folder), args=config, train_dataset=sandlot.dataset(), reward_funcs=sandlot.reward, **given
    )


def steps_of(trainer):
    return [line for line in trainer.state.log_history if "grad_norm" in line]


def test_one_message_is_sampled_by_trl_and_graded_here(tmp_path):
    with open_for_trl(ENVIRONMENTS / "arithmetic", run=tmp_path / "run", model="rookie") as sandlot:
        trainer = grpo(tmp_path, sandlot)
        assert set(trainer.train_dataset["task"]).isdisjoint(heldout("arithmetic"))
        trainer.train()
    assert len(steps_of(trainer)) == 2
    assert steps_of(trainer)[0]["sandlot/failed"] == 0
    run = Run(tmp_path / "run")
    assert len(run) == 2 * 4 * GROUP
    assert all(isinstance(trace.outcome, Scored) for trace in run)


def test_whole_rollouts_with_tools_are_played_here_with_the_weights_of_the_moment(tmp_path):
    with open_for_trl(ENVIRONMENTS / "drill", run=tmp_path / "run", model="rookie", select=single) as sandlot:
        trainer = grpo(tmp_path, sandlot, rollout_func=sandlot.rollouts)
        before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
        played = sandlot.rollouts([trainer.train_dataset[number]["prompt"] for number in range(8)], trainer)
        assert apart(trainer, played) < 1e-4
        trainer.train()
        assert any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
        again = sandlot.rollouts([trainer.train_dataset[number]["prompt"] for number in range(8)], trainer)
        assert apart(trainer, again) < 1e-4  # of the weights as they have become
    assert all(len(line) > 0 for line in steps_of(trainer))
    traces = list(Run(tmp_path / "run"))
    assert len(traces) == 8 + 2 * 4 * GROUP + 8
    assert any(node.message.calls for trace in traces for node in trace.nodes)
    rewards = {trace.outcome.score.value for trace in traces}
    assert len(rewards) > 1


def test_what_the_environment_said_is_never_learned_from(tmp_path):
    with open_for_trl(ENVIRONMENTS / "drill", run=tmp_path / "run", model="rookie", select=single) as sandlot:
        trainer = grpo(tmp_path, sandlot, rollout_func=sandlot.rollouts)
        played = sandlot.rollouts([trainer.train_dataset[number]["prompt"] for number in range(8)], trainer)
    tokenizer = trainer.processing_class
    for ids, mask in zip(played["completion_ids"], played["env_mask"], strict=True):
        assert "<|result|>" not in tokenizer.decode([token for token, ours in zip(ids, mask, strict=True) if ours])
    assert any("<|result|>" in tokenizer.decode(ids) for ids in played["completion_ids"])


ROOKIE_SPEAKS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<\|call\|>(?P<name>[^<]+)",
            "close_pattern": r"(?=<\|call\|>)|<\|end\|>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r"<\|arg\|>(?P<key>[^<]+)<\|text\|>(?P<value>.*?)(?=<\|arg\|>|$)",
                "value_parser": {"name": "text"},
            },
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"<\|end\|>", "content": "text"},
    },
}
"""How TRL reads rookie's calls: it needs to be told for models it does not know."""


def test_trl_holds_the_loop_and_calls_tools_in_sandboxes_here(tmp_path):
    with open_for_trl(ENVIRONMENTS / "drill", run=tmp_path / "run", model="rookie", select=single) as sandlot:
        tokenizer = AutoTokenizer.from_pretrained(sandlot.folder)
        tokenizer.response_template = ROOKIE_SPEAKS
        trainer = grpo(tmp_path, sandlot, processing_class=tokenizer, environment_factory=sandlot.environment)
        told = get_json_schema(sandlot.environment().bash)["function"]["parameters"]
        assert told["properties"].keys() == {"command"}
        assert told["required"] == ["command"]
        trainer.train()
    traces = list(Run(tmp_path / "run"))
    assert len(traces) == 2 * 4 * GROUP
    assert all(isinstance(trace.outcome, Scored) for trace in traces)
    assert len({trace.outcome.score.value for trace in traces}) > 1
    assert steps_of(trainer)[0]["tools/call_frequency"] > 0.5
    mean = sum(trace.outcome.score.value for trace in traces) / len(traces)
    assert sum(step["reward"] for step in steps_of(trainer)) / 2 == pytest.approx(mean, abs=1e-4)


def test_a_failed_rollout_is_left_out_of_its_group(tmp_path):
    graded = count()

    @environment("brittle", tasks=16)
    def brittle(rng):
        answer = yield Ask(f"Say {rng.randrange(10)}.")
        if next(graded) == 2:
            raise OSError("the disk of the grader is full")
        yield Score(len(answer) % 7 / 7)

    with open_for_trl(brittle, run=tmp_path / "run", model="rookie") as sandlot:
        trainer = grpo(tmp_path, sandlot, steps=1)
        trainer.train()
    rewards, advantages = list(trainer._logs["rewards"]["reward"]), list(trainer._logs["advantages"])
    (failed,) = [place for place, reward in enumerate(rewards) if math.isnan(reward)]
    assert advantages[failed] == 0
    start = failed // GROUP * GROUP
    others = [place for place in range(start, start + GROUP) if place != failed]
    mean = sum(rewards[place] for place in others) / len(others)
    assert all((advantages[place] > 0) == (rewards[place] > mean + 1e-6) for place in others)
    assert sum(isinstance(trace.outcome, Failed) for trace in Run(tmp_path / "run")) == 1


def test_an_environment_that_keeps_failing_stops_the_training(tmp_path):
    @environment("broken", tasks=16)
    def broken(rng):
        yield Ask(f"Say {rng.randrange(10)}.")
        raise OSError("no grader anywhere")

    with open_for_trl(broken, run=tmp_path / "run", model="rookie") as sandlot:
        trainer = grpo(tmp_path, sandlot)
        with pytest.raises(HarnessError, match="no grader anywhere"):
            trainer.train()
    assert not steps_of(trainer)


def test_environments_with_tools_or_several_turns_ask_for_whole_rollouts(tmp_path):
    @environment("twice", tasks=16)
    def twice(rng):
        first = yield Ask(f"Say {rng.randrange(10)}.")
        yield Ask("And again.")
        yield Score(len(first) > 3)

    with (
        open_for_trl(ENVIRONMENTS / "helpdesk", run=tmp_path / "tools") as sandlot,
        pytest.raises(ConfigError, match="has tools"),
    ):
        sandlot.reward(completions=["hello"], task=[sandlot.dataset()[0]["task"]])
    with (
        open_for_trl(twice, run=tmp_path / "twice") as sandlot,
        pytest.raises(ConfigError, match="continues after the first answer"),
    ):
        sandlot.reward(completions=["hello"], task=[sandlot.dataset()[0]["task"]])


def single(task):
    return "single" in task.tags


def heldout(name):
    from sandlot.core.types import Split
    from sandlot.env.load import load
    from sandlot.env.taskset import tasks_of

    return {task.id for task in tasks_of(load(ENVIRONMENTS / name), Split.HELDOUT)}


def apart(trainer, played):
    """How far the log-probabilities a rollout was sampled with lie from the trainer's own, at most."""
    farthest = 0.0
    for prompt, completion, mask, logprobs in zip(
        played["prompt_ids"], played["completion_ids"], played["env_mask"], played["logprobs"], strict=True
    ):
        ids = torch.tensor([[*prompt, *completion]])
        with torch.no_grad():
            scores = trainer.model(ids).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
        own = scores.gather(1, ids[0, len(prompt) :, None])[:, 0]
        sampled = torch.tensor(mask, dtype=torch.bool)
        farthest = max(farthest, float((own - torch.tensor(logprobs))[sampled].abs().max()))
    return farthest
