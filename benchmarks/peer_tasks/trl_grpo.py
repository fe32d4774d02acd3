"""TRL's GRPOTrainer with the settings of `grpo_recipe.py`. Runs in TRL's own environment; the job comes in the variable `GRPO`.

`tasks` given: TRL does everything, with a reward function in plain Python. Without: Sandlot plays the rollouts for it.
"""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

GIVEN = json.loads(os.environ["GRPO"])


def exactly_right(completions, answer, **_):
    return [float(said[-1]["content"].strip() == right) for said, right in zip(completions, answer, strict=True)]


def alone():
    rows = [{"prompt": [{"role": "user", "content": task["prompt"]}], "answer": task["answer"]} for task in GIVEN["questions"]]
    return {"train_dataset": Dataset.from_list(rows), "reward_funcs": exactly_right}


def on_sandlot(sandlot):
    return {"train_dataset": sandlot.dataset(), "reward_funcs": sandlot.reward, "rollout_func": sandlot.rollouts}


def opened():
    if GIVEN["questions"]:
        return nullcontext()
    from sandlot.interop.trl import open_for_trl

    select = (lambda task: GIVEN["tag"] in task.tags) if GIVEN["tag"] else None
    return open_for_trl(GIVEN["env"], run=GIVEN["run"], model=GIVEN["model"], select=select, at_once=128)


torch.set_num_threads(GIVEN["threads"])
config = GRPOConfig(
    output_dir=GIVEN["out"],
    max_steps=GIVEN["steps"],
    per_device_train_batch_size=GIVEN["batch_rows"],
    gradient_accumulation_steps=GIVEN["tasks"] * GIVEN["group"] // GIVEN["batch_rows"],
    num_generations=GIVEN["group"],
    max_completion_length=GIVEN["max_tokens"],
    temperature=1.0,
    top_p=1.0,
    top_k=0,
    loss_type="dapo",  # sums over tokens of the whole batch
    epsilon=0.2,
    epsilon_high=0.28,
    beta=0.0,
    scale_rewards="group",
    learning_rate=GIVEN["learning_rate"],
    lr_scheduler_type="constant",
    warmup_steps=0,
    adam_beta1=0.9,
    adam_beta2=0.95,
    weight_decay=0.0,
    max_grad_norm=1.0,
    seed=GIVEN["seed"],
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    report_to=[],
    save_strategy="no",
    logging_steps=GIVEN["steps"],
    disable_tqdm=True,
)
with opened() as sandlot:
    given = on_sandlot(sandlot) if sandlot else alone()
    trainer = GRPOTrainer(model=GIVEN["folder"], args=config, **given)
    trainer.train()
trainer.save_model(str(Path(GIVEN["out"]) / "model"))
line = next(line for line in trainer.state.log_history if "reward" in line)
print(json.dumps({"reward": line["reward"], "mean_tokens": line["completions/mean_length"]}))
