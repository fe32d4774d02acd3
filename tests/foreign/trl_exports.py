"""What `sandlot export` wrote, read by `datasets` and learned from by TRL's trainers. `trl.sh` runs it where TRL is."""

import json
import os
from pathlib import Path

import pytest
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

EXPORTS = Path(os.environ["SANDLOT_EXPORTS"])
ROOKIE = str(Path(__file__).parents[2] / "src" / "sandlot" / "model" / "engine" / "rookie")
FILES = ["helpdesk-sft", "helpdesk-pairs", "drill-sft", "drill-rollouts", "arithmetic-sft"]
ENDINGS = {"parquet": "parquet", "jsonl": "json"}


def rows_in(name, ending):
    return load_dataset(ENDINGS[ending], data_files=str(EXPORTS / f"{name}.{ending}"))["train"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", FILES)
def test_datasets_reads_exactly_what_was_written(name, ending):
    """A key that is absent stays absent: templates take null for something."""
    written = [json.loads(line) for line in (EXPORTS / f"{name}.jsonl").read_text().splitlines()]
    assert len(written) > 8
    for row in written:  # `datasets` cuts numbers of JSON after ten places; Parquet keeps them
        row |= {name: pytest.approx(row[name], abs=1e-9) for name in ("reward", "logprobs") if name in row}
    assert list(rows_in(name, ending)) == written


def test_a_chat_template_spells_a_conversation_as_the_tokens_that_were_sampled():
    """Messages and tools of an export, rendered by the model's own template: the text the model saw and wrote."""
    tokenizer = AutoTokenizer.from_pretrained(ROOKIE)
    exact = {(row["task"], row["rollout"]): row["ids"] for row in rows_in("drill-rollouts", "parquet")}
    for row in rows_in("drill-sft", "parquet"):
        text = tokenizer.apply_chat_template(row["messages"], tools=row["tools"], tokenize=False)
        assert text == tokenizer.decode(exact[row["task"], row["rollout"]])


@pytest.mark.parametrize(
    ("name", "ending"),
    [("helpdesk-sft", "parquet"), ("helpdesk-sft", "jsonl"), ("drill-sft", "parquet"), ("arithmetic-sft", "parquet")],
)
def test_the_sft_trainer_learns_from_conversations(tmp_path, name, ending):
    trainer = SFTTrainer(ROOKIE, args=SFTConfig(**few_steps(tmp_path)), train_dataset=rows_in(name, ending).select(range(8)))
    trainer.train()
    assert learned(trainer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_dpo_trainer_learns_from_pairs(tmp_path, ending):
    pairs = rows_in("helpdesk-pairs", ending).select(range(8))
    trainer = DPOTrainer(ROOKIE, args=DPOConfig(**few_steps(tmp_path)), train_dataset=pairs)
    trainer.train()
    assert learned(trainer)


def few_steps(place):
    return {
        "output_dir": str(place),
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "max_length": 512,
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
    }


def learned(trainer):
    """Both steps had a loss and a gradient."""
    steps = [line for line in trainer.state.log_history if "grad_norm" in line]
    return len(steps) == 2 and all(float(step["grad_norm"]) > 0 for step in steps)
