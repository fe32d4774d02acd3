"""Pairs from files: what `sandlot export` and TRL write is read; a broken line is named before anything is trained."""

import json
import math
from importlib import import_module

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from builders.tiny_models import CONTEXT, write_tiny
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.trace import Message, Node, Scored, Text, ToolCall, Trace
from sandlot.core.types import Role
from sandlot.interop.tables import write_rows
from sandlot.model.nn.folder import load_folder
from sandlot.model.render.open import open_renderer
from sandlot.train.algorithms.algorithms import Prefer
from sandlot.train.algorithms.losses import Columns
from sandlot.train.algorithms.preferences import BradleyTerry, Dpo
from sandlot.train.pairs import PairBatches, conversation_row, load_pairs, read_pairs, require_same_pairs
from sandlot.train.recipe import Recipe
from sandlot.train.reward_model import FOLDER, HEAD, MODEL, RewardModel, read_reward_model
from sandlot.train.reward_training import RankedStep, RewardRecipe, agreement_of, train_reward_model
from sandlot.train.rows import group_of
from sandlot.train.trainer import Optimisation, Trainer

pytestmark = pytest.mark.timeout(300)

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which day is it?"}]
CALLED = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [{"type": "function", "id": "a", "function": {"name": "clock", "arguments": {"zone": "UTC"}}}],
}
TOLD = {"role": "tool", "content": "Monday", "tool_call_id": "a", "error": False, "name": "clock"}
TOOL = {"type": "function", "function": {"name": "clock", "description": "The day.", "parameters": {"type": "object"}}}


def said(text: str) -> list[dict]:
    return [{"role": "assistant", "content": text}]


def pair(task: str = "t", chosen: str = "Monday.", rejected: str = "No idea.", **fields) -> dict:
    plain = {"prompt": ASKED, "chosen": [CALLED, TOLD, *said(chosen)], "rejected": said(rejected), "task": task, "tools": [TOOL]}
    return plain | fields


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def renderer(folder):
    return open_renderer(folder)


@pytest.fixture
def written(tmp_path):
    def write(*rows: dict | str | bytes, name: str = "pairs.jsonl"):
        lines = [
            row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode() for row in rows
        ]
        (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
        return tmp_path / name

    return write


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_assistants_tokens_are_trained_and_nothing_else(written, renderer):
    [group] = load_pairs(written(pair()), renderer, CONTEXT).groups
    better, worse = (member.rows[0] for member in group.members)
    assert [member.reward for member in group.members] == [1.0, 0.0]
    spoken = renderer.tokenizer.decode(better.ids[better.trained].tolist())
    assert "I look." in spoken
    assert "Monday." in spoken
    assert "Which day" not in spoken
    assert sorted(set(better.turns.tolist())) == [-1, 0, 1]
    assert sorted(set(worse.turns.tolist())) == [-1, 0]
    assert not better.trained[better.turns < 0].any()


def test_parquet_reads_back_as_jsonl_does(tmp_path, written, renderer):
    rows = [pair("a"), pair("b", chosen="It is Monday.", score_chosen=1.0, score_rejected=0.5)]
    rows = [{**row, "score_chosen": 1.0, "score_rejected": 0.0} for row in rows]
    write_rows(tmp_path / "pairs.parquet", iter(rows))
    lines, table = (load_pairs(file, renderer, CONTEXT).groups for file in (written(*rows), tmp_path / "pairs.parquet"))
    assert [group.task for group in table] == ["a", "b"]
    for one, other in zip(lines, table, strict=True):
        for mine, theirs in zip(one.members, other.members, strict=True):
            assert np.array_equal(mine.rows[0].ids, theirs.rows[0].ids)


def test_plain_texts_are_a_user_and_an_assistant_and_a_missing_task_is_the_prompt(written):
    rows = [{"prompt": "Hi", "chosen": "Hello!", "rejected": answer} for answer in ("No", "Go away")]
    first, second = read_pairs(written(*rows))
    assert first.task == second.task
    assert [message.role for message in (*first.prompt, *first.chosen)] == [Role.USER, Role.ASSISTANT]


GOOD = pair()
BROKEN = {
    "not json": ("{", "line 2"),
    "not utf-8": (b'{"prompt": "\xff", "chosen": "a", "rejected": "b"}', "line 2"),
    "a list": ("[]", "Expected `object`"),
    "a missing field": ({"prompt": "Hi", "chosen": "a"}, "missing required field `rejected`"),
    "a wrong type": (GOOD | {"chosen": 7}, r"\$.chosen"),
    "a wrong role": (GOOD | {"prompt": [{"role": "boss", "content": "Now!"}]}, r"\$.prompt\[0\].role"),
    "a wrong score": (GOOD | {"score_chosen": "high"}, r"\$.score_chosen"),
    "duplicate keys": ('{"prompt": "Hi", "chosen": "a", "rejected": "b", "chosen": "c"}', "`chosen` occurs twice"),
    "deep nesting": ('{"prompt": "Hi", "chosen": "a", "rejected": "b", "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2"),
    "no prompt": (GOOD | {"prompt": []}, "`prompt` is empty"),
    "an empty answer": (GOOD | {"rejected": []}, "`rejected` must begin and end with a message of the assistant"),
    "an answer of the user": (GOOD | {"chosen": [{"role": "user", "content": "x"}]}, "`chosen` must begin and end"),
    "an answer that ends with a result": (GOOD | {"chosen": [CALLED, TOLD]}, "`chosen` must begin and end"),
    "the worse one chosen": (
        GOOD | {"score_chosen": 0.1, "score_rejected": 0.9},
        "`score_chosen` is 0.1 and `score_rejected` 0.9",
    ),
    "arguments that are no object": (
        GOOD | {"chosen": [{**CALLED, "tool_calls": [{"function": {"name": "clock", "arguments": "[1"}}]}]},
        "the arguments of the call of `clock` are not a JSON object",
    ),
    "a system message in the middle": (
        GOOD | {"chosen": [*said("a"), {"role": "system", "content": "b"}, *said("c")]},
        "a system message follows an assistant turn",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_line_is_named(written, renderer, kind):
    line, why = BROKEN[kind]
    with pytest.raises(ConfigError, match=why) as refused:
        load_pairs(written(GOOD, line), renderer, CONTEXT)
    assert "pairs.jsonl`, line 2" in str(refused.value)
    assert len(str(refused.value)) < 600


def test_a_huge_line_is_refused_before_it_is_in_memory(written, renderer, monkeypatch):
    monkeypatch.setattr(import_module("sandlot.train.pairs"), "_LONGEST", 2**20)
    with pytest.raises(ConfigError, match="line 1 is longer than 1 MiB"):
        load_pairs(written(pair(chosen="x" * 2**21)), renderer, CONTEXT)


def test_files_that_hold_no_pairs_are_refused(tmp_path, written, renderer):
    with pytest.raises(ConfigError, match="has no pairs"):
        load_pairs(written(""), renderer, CONTEXT)
    with pytest.raises(ConfigError, match=r"read from \.jsonl and \.parquet"):
        load_pairs(written(pair(), name="pairs.csv"), renderer, CONTEXT)
    with pytest.raises(ConfigError, match="no file"):
        load_pairs(tmp_path / "absent.jsonl", renderer, CONTEXT)
    with pytest.raises(ConfigError, match="row 0"):
        load_pairs(written(pair(), name="pairs.parquet"), renderer, CONTEXT)


def test_pairs_that_teach_nothing_or_do_not_fit_are_left_out_and_counted(written, renderer):
    same = pair(chosen="x") | {"rejected": pair(chosen="x")["chosen"]}
    loaded = load_pairs(written(pair(), same, pair(rejected="long " * 600), pair("last")), renderer, CONTEXT)
    assert [group.task for group in loaded.groups] == ["t", "last"]
    assert (loaded.used.equal, loaded.used.too_long) == ((2,), (3,))
    assert "2 of 4 pairs" in loaded.used.sentence
    assert "(lines 2, 3)" in loaded.used.sentence
    with pytest.raises(ConfigError, match="1 of 1 pairs"):
        load_pairs(written(same), renderer, CONTEXT)


def test_every_pair_comes_once_in_each_pass_in_an_order_of_the_seed(written, renderer):
    groups = load_pairs(written(*(pair(f"t{number}") for number in range(6))), renderer, CONTEXT).groups
    batches = PairBatches(groups, seed=0)
    twice = [[group.task for group in batches.next(4)] for _ in range(3)]
    seen = [task for batch in twice for task in batch]
    assert sorted(seen[:6]) == sorted(seen[6:]) == sorted(group.task for group in groups)
    assert seen[:6] != seen[6:]
    assert [group.task for group in PairBatches(groups, seed=0, first=4).next(4)] == twice[1]
    assert batches.taken == 12


def test_a_training_goes_on_only_with_the_same_pairs(tmp_path, written, renderer):
    require_same_pairs(load_pairs(written(pair()), renderer, CONTEXT).used, tmp_path)
    require_same_pairs(load_pairs(written(pair()), renderer, CONTEXT).used, tmp_path)
    with pytest.raises(ConfigError, match="begun with other pairs"):
        require_same_pairs(load_pairs(written(pair("other")), renderer, CONTEXT).used, tmp_path)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"pairs": "p.jsonl"}, "`pairs` are learned from with `algorithm=Prefer"),
        (
            {"pairs": "p.jsonl", "algorithm": Prefer(), "staleness": 1, "teacher": "scripted:golden"},
            "leave out staleness, teacher",
        ),
        ({"algorithm": Prefer(loss=BradleyTerry())}, "use `train_reward_model`"),
    ],
)
def test_recipes_that_make_no_sense_with_pairs_are_refused(fields, why):
    with pytest.raises(ConfigError, match=why):
        Recipe(name="x", env="drill", **fields)


# -- the loss ----------------------------------------------------------------------------------------------------------


def test_bradley_terry_compares_the_values_at_the_last_tokens():
    values = torch.tensor([9.0, 1.5, -3.0, 7.0, 0.25], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(5, dtype=torch.float64)
    columns = Columns(
        logprobs=zeros, old=zeros, behaviour=zeros, signal=torch.tensor([1.0, 1, -1, -1, -1], dtype=torch.float64),
        row=torch.tensor([0, 0, 1, 1, 1]), rows=2, partner=torch.tensor([1, 0]), values=values,
    )  # fmt: skip
    loss = BradleyTerry()(columns)
    expected = math.log1p(math.exp(-(1.5 - 0.25)))
    assert loss.tolist() == pytest.approx([expected] * 2 + [0.0] * 3, abs=1e-12)
    (loss.sum() / 2).backward()
    slope = -1 / (1 + math.exp(1.5 - 0.25))
    assert values.grad.tolist() == pytest.approx([0, slope, 0, 0, -slope], abs=1e-12)


@pytest.mark.parametrize("loss", [BradleyTerry(), Dpo(0.2)])
def test_a_step_equals_pair_by_pair_arithmetic_in_fp64(written, renderer, folder, loss):
    rows = [pair(f"t{number}", rejected=f"No idea {number}.") for number in range(3)]
    groups = load_pairs(written(*rows), renderer, CONTEXT).groups
    values = isinstance(loss, BradleyTerry)
    decoder, before = (load_folder(folder, dtype=torch.float64) for _ in range(2))
    trainer = Trainer(decoder, Optimisation(learning_rate=1e-2), critic=values, reference=None if values else before)
    trainer.update(Prefer(loss=loss)(groups))  # away from the start, where all leads are 0
    leads = []
    for group in groups:
        better, worse = (member.rows[0] for member in group.members)
        if values:
            found = [trainer.values(row)[row.trained][-1] for row in (better, worse)]
        else:
            found = [
                math.fsum((trainer.logprobs([row])[0] - trainer.logprobs([row], before)[0]).tolist()) for row in (better, worse)
            ]
        leads.append(float(found[0] - found[1]))
    update = trainer.update(Prefer(loss=loss)(groups))
    scale = 1.0 if values else 0.2
    assert update.loss == pytest.approx(sum(math.log1p(math.exp(-scale * lead)) for lead in leads) / 3, rel=1e-6)
    assert update.figures["agreement"] == sum(lead > 0 for lead in leads) / 3


# -- reward models -----------------------------------------------------------------------------------------------------

WORDS = ("apple", "river", "stone", "cloud", "green", "sleep", "table", "music", "paper", "light", "north", "seven")


@pytest.fixture
def taste(written, folder):
    """Pairs whose better answer says yes."""
    rows = [
        {"prompt": f"Do you like {word}?", "chosen": f"yes {word}", "rejected": f"no {word}!", "task": word} for word in WORDS
    ]
    file = written(*rows)
    return lambda **changed: RewardRecipe(
        **{
            "pairs": file, "model": f"hf:{folder}", "steps": 6, "batch": 4, "every": 2, "heldout": 0.25, "threads": 1,
            "optimisation": Optimisation(learning_rate=3e-3),
        }
        | changed
    )  # fmt: skip


def losses(lines) -> list[tuple]:
    return [(line.version, line.loss, line.agreement) for line in lines if isinstance(line, RankedStep)]


class _CrashError(Exception):
    pass


def test_a_reward_model_ranks_held_out_pairs_and_a_killed_one_goes_on_with_the_same_losses(tmp_path, taste):
    whole, again = [], []
    record = train_reward_model(taste(), tmp_path / "whole", sink=whole.append)
    assert (record.trained, record.after.pairs, record.after.tasks) == (9, 3, 3)
    assert record.before.share == 0.5
    assert record.after.share == 1.0
    assert record.after.low < 1.0
    assert 0.5 < record.after.confidence < 1.0
    assert record == read_reward_model(tmp_path / "whole")

    def crash(line):
        if isinstance(line, RankedStep) and line.version == 4:
            raise _CrashError

    with pytest.raises(_CrashError):
        train_reward_model(taste(), tmp_path / "killed", sink=crash)
    resumed = train_reward_model(taste(), tmp_path / "killed", sink=again.append)
    assert losses(again) == losses(whole)[2:]
    assert resumed.weights == record.weights
    with pytest.raises(ConfigError, match="begun with another batch"):
        train_reward_model(taste(batch=2), tmp_path / "killed")


def conversation(*texts: str) -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    for at, text in enumerate(texts):
        role = Role.ASSISTANT if at % 2 else Role.USER
        trace.append(Node(message=Message(role=role, parts=(Text(text),)), parent=at - 1 if at else None))
    return trace


def test_a_traces_score_is_the_value_at_its_last_token_computed_row_by_row(tmp_path, taste):
    record = train_reward_model(taste(steps=2), tmp_path / "run")
    model = RewardModel(tmp_path / "run")
    traces = [conversation("Do you like rain?", said) for said in ("yes rain", "no rain!", "yes rain")]
    traces.append(conversation("Do you like rain?", "yes", "Sure?", "yes, sure", "Thanks, bye."))
    home = tmp_path / "run" / FOLDER
    trainer = Trainer(load_folder(home / MODEL, dtype=torch.float32), Optimisation(), critic=True)
    trainer.critic.load_state_dict(load_file(home / HEAD))
    renderer = open_renderer(home / MODEL)
    expected = []
    for trace in traces:
        messages = [node.message for node in trace.path()]
        row = conversation_row(messages[: -1 if len(messages) % 2 else None], (), renderer)
        expected.append(float(trainer.values(row)[row.trained][-1]) - record.centre)
    assert model.scores(traces) == pytest.approx(expected, abs=1e-5)
    assert model.scores(traces)[0] == model.scores(traces)[2]
    assert model(traces[0]) == pytest.approx(1 / (1 + math.exp(-expected[0])), abs=1e-5)


def test_a_trace_that_the_reward_model_cannot_read_has_no_reward_and_leaves_its_group(tmp_path, taste):
    train_reward_model(taste(steps=1), tmp_path / "run")
    model = RewardModel(tmp_path / "run")
    short, long = conversation("Do you like rain?", "yes"), conversation("Do you like rain?", "yes " * 9_000)
    assert [reward is None for reward in model.rewards([short, long, short])] == [False, True, False]
    with pytest.raises(ConfigError, match="longer than the context of the reward model"):
        model(long)
    scored = Scored(RubricScore(points=1, possible=1, value=1.0))
    for trace in (long, empty := Trace(run="r", task="t", rollout=1, seed=0)):
        trace.outcome = scored
    group = group_of("t", [long, empty], model)
    assert (group.members, group.dropped) == ((), 2)


def test_a_trace_is_read_as_its_exported_pair_is(written, renderer):
    """Thoughts, text and calls come in the order of the file, whatever order the model wrote them in."""
    call = ToolCall("a", "clock", {"zone": "UTC"})
    mixed = Message(role=Role.ASSISTANT, parts=(call, Text("I look.")))
    [read] = read_pairs(written(pair() | {"chosen": [CALLED]}))
    mine, theirs = (conversation_row((*read.prompt, last), read.tools, renderer) for last in (mixed, read.chosen[0]))
    assert np.array_equal(mine.ids, theirs.ids)


def test_a_folder_without_a_reward_model_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match="has no trained reward model"):
        RewardModel(tmp_path)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "reward_model.json").write_bytes(msgspec.json.encode({"model": 7}))
    with pytest.raises(ConfigError, match=r"reward_model\.json"):
        RewardModel(tmp_path)


def test_a_reward_model_needs_pairs_of_several_tasks_and_of_one_set_of_tools(tmp_path, written, folder):
    recipe = RewardRecipe(pairs=written(pair()), model=f"hf:{folder}")
    with pytest.raises(ConfigError, match="none is left to train on"):
        train_reward_model(recipe, tmp_path / "one")
    recipe = RewardRecipe(pairs=written(pair(), pair("other", tools=[])), model=f"hf:{folder}")
    with pytest.raises(ConfigError, match="2 different sets of tools"):
        train_reward_model(recipe, tmp_path / "two")


def test_agreement_counts_ties_half_and_clusters_by_task():
    found = agreement_of(0, ["a", "a", "b", "c"], [1.0, -1.0, 0.0, 2.0])
    assert (found.share, found.pairs, found.tasks, found.margin) == (0.625, 4, 3, 0.5)
    assert found.low < 0.625 < found.high
    sure = [1 / (1 + math.exp(-abs(margin))) for margin in (1, 1, 0, 2)]
    assert found.confidence == pytest.approx(sum(sure) / 4)
