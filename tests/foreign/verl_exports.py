"""What `sandlot export` wrote, read by verl's own dataset classes. Run by `trl.sh` in an environment of its own."""

import json
import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.import_utils import load_extern_object

EXPORTS = Path(os.environ["SANDLOT_EXPORTS"])
TOKENIZER = AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "src" / "sandlot" / "model" / "engine" / "rookie")
CONFIG = OmegaConf.create({"max_length": 4096, "pad_mode": "no_padding", "truncation": "error"})


def written(name):
    return [json.loads(line) for line in (EXPORTS / f"{name}.jsonl").read_text().splitlines()]


def test_the_sft_dataset_reads_conversations_without_tools_as_they_are():
    data = MultiTurnSFTDataset(str(EXPORTS / "arithmetic-sft.parquet"), TOKENIZER, CONFIG)
    rows = written("arithmetic-sft")
    assert len(data) == len(rows)
    for number, row in enumerate(rows):
        assert told(data[number]) == f"{row['messages'][-1]['content']}<|end|>"


def test_the_sft_dataset_reads_conversations_with_tools_through_our_class():
    """As `data.custom_cls.path=pkg://sandlot.interop.verl` loads it; only what the assistant said is learned from."""
    conversations = load_extern_object("pkg://sandlot.interop.verl", "Conversations")
    data = conversations(str(EXPORTS / "drill-sft.parquet"), TOKENIZER, CONFIG)
    exact = {(row["task"], row["rollout"]): row for row in written("drill-rollouts")}
    rows = written("drill-sft")
    assert len(data) == len(rows)
    for number, row in enumerate(rows):
        sampled = exact[row["task"], row["rollout"]]
        assert TOKENIZER.decode(data[number]["input_ids"]) == TOKENIZER.decode(sampled["ids"])
        assert told(data[number]) == TOKENIZER.decode(
            [i for i, is_ours in zip(sampled["ids"], sampled["mask"], strict=True) if is_ours]
        )


def test_every_long_conversation_of_helpdesk_is_read():
    conversations = load_extern_object("pkg://sandlot.interop.verl", "Conversations")
    data = conversations(str(EXPORTS / "helpdesk-sft.parquet"), TOKENIZER, CONFIG)
    assert all(data[number]["loss_mask"].any() for number in range(0, len(data), 7))


def test_the_rl_dataset_reads_prompts_and_everything_beside_them(tmp_path):
    for ending in ("parquet", "jsonl"):
        config = OmegaConf.create(
            {"cache_dir": str(tmp_path / ending), "max_prompt_length": 512, "filter_overlong_prompts_workers": 1}
        )
        data = RLHFDataset(str(EXPORTS / f"drill-rollouts.{ending}"), TOKENIZER, config)
        rows = written("drill-rollouts")
        assert len(data) == len(rows)
        for number, row in enumerate(rows):
            assert data[number]["raw_prompt"] == row["prompt"]
            assert {name: data[number][name] for name in ("task", "ids", "tools")} == {
                name: row[name] for name in ("task", "ids", "tools")
            }
            # The package that reads the file keeps ten digits of a number in JSON where rows have values of unequal kinds.
            assert data[number]["reward"] == (row["reward"] if ending == "parquet" else pytest.approx(row["reward"], abs=1e-9))


def told(row):
    """The tokens that are learned from, as text."""
    return TOKENIZER.decode(row["input_ids"][row["loss_mask"].bool()])
