"""PEFT as the judge: adapters that PEFT writes, mixed in our engine, against PEFT's own logits (`make test-peft`)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from fakes.peer_models import VARIANTS
from fakes.transformers_models import transformers_model
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.lora import read_adapter

PROMPT = [5, 17, 99, 3, 0, 42, 42, 7]
TARGETS = (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])


def write(model: torch.nn.Module, folder: Path, targets: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=12, target_modules=targets, init_lora_weights=False))
    adapted.save_pretrained(folder)


@pytest.mark.parametrize("name", ["llama biased", "qwen2 tied", "qwen3 wide heads"])
def test_an_adapter_that_peft_wrote_gives_pefts_logprobs_in_a_mixed_batch(name: str, tmp_path: Path):
    transformers_model(VARIANTS[name]).save_pretrained(tmp_path / "base")
    for seed, targets in enumerate(TARGETS):
        write(transformers_model(VARIANTS[name]), tmp_path / str(seed), targets, seed)
    decoder = load_folder(tmp_path / "base")
    engine = Engine(PlainRunner(decoder, blocks=64, block_size=4), blocks=64, context=64, max_batch=4, chunk=16)
    for seed in range(len(TARGETS)):
        engine.load_adapter(str(seed), read_adapter(tmp_path / str(seed), decoder.shape))
    numbers = {engine.submit(Request(ids=PROMPT, max_tokens=12, seed=1, adapter=each)): each for each in ("", "0", "1", "0")}
    answers = {}
    while not engine.is_idle:
        answers |= {answer.id: answer for answer in engine.step()}
    for number, adapter in numbers.items():
        model = transformers_model(VARIANTS[name])
        judge = PeftModel.from_pretrained(model, tmp_path / adapter) if adapter else model
        ids = [*PROMPT, *answers[number].ids.tolist()]
        with torch.no_grad():
            logprobs = judge(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        theirs = [float(logprobs[at - 1, ids[at]]) for at in range(len(PROMPT), len(ids))]
        np.testing.assert_allclose(answers[number].logprobs, theirs, atol=2e-4)
