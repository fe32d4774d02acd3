"""What other tests take for `transformers` agrees with it, and it reads what we write. To import it costs five CPU-seconds."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from builders.model_folders import CHATML_SPECIAL, QWEN2, QWEN3, SMOLLM2, write_tokenizer
from fakes.peer_models import VARIANTS, config_of, load_peer, logits, peer, peer_logits
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.render.selftest import probes
from sandlot.model.render.template import as_entries, as_function

pytestmark = pytest.mark.system
IDS = torch.tensor([5, 17, 99, 3, 0, 42, 42, 7] * 20)
RENDERED = Path(__file__).parents[1] / "unit" / "model" / "render" / "rendered_by_transformers.json"


@pytest.mark.parametrize("name", VARIANTS)
def test_the_peer_that_is_written_out_agrees_with_transformers(name: str, tmp_path: Path):
    from fakes.transformers_models import transformers_model

    theirs, twin = transformers_model(VARIANTS[name]), peer(VARIANTS[name])
    theirs.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    del written["transformers_version"]
    assert written == config_of(VARIANTS[name])
    assert theirs.state_dict().keys() == twin.state_dict().keys()
    assert all(torch.equal(tensor, twin.state_dict()[name]) for name, tensor in theirs.state_dict().items())
    exact = theirs(IDS[None]).logits[0].detach()
    tolerance = 1e-5 * exact.abs().max().clamp(min=1)
    assert (peer_logits(twin, IDS) - exact).abs().max() < tolerance
    assert (logits(load_folder(tmp_path), IDS) - exact).abs().max() < tolerance


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_saved_loads_in_transformers_with_the_same_tensors(name: str, tmp_path: Path):
    from fakes.transformers_models import transformers_model

    model = transformers_model(VARIANTS[name])
    model.save_pretrained(tmp_path / "theirs")
    save_folder(load_folder(tmp_path / "theirs"), tmp_path / "ours")
    again = type(model).from_pretrained(tmp_path / "ours")
    assert {name: tuple(tensor.shape) for name, tensor in again.state_dict().items()} == {
        name: tuple(tensor.shape) for name, tensor in model.state_dict().items()
    }
    assert torch.equal(again(IDS[None]).logits, model(IDS[None]).logits)


@pytest.mark.timeout(300)  # the first time, the model is downloaded and converted
def test_smollm2_agrees_with_transformers():
    from transformers import AutoModelForCausalLM

    folder = model_folder("smollm2")
    ids = torch.tensor(Tokenizer.from_file(str(folder / "tokenizer.json")).encode("The capital of France is Paris").ids)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(ids[None]).logits[0].detach()
    assert (logits(load_folder(folder, dtype=torch.float32), ids) - theirs).abs().max() < 5e-4  # of logits up to 30
    assert (peer_logits(load_peer(folder).float(), ids) - theirs).abs().max() < 5e-4


def test_the_texts_that_our_templates_are_compared_with_are_those_of_transformers(tmp_path: Path):
    from transformers import PreTrainedTokenizerFast

    write_tokenizer(tmp_path, CHATML_SPECIAL)
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), bos_token="<|endoftext|>")
    rendered = {
        name: {
            probe.what: theirs.apply_chat_template(
                [entry for message in probe.messages for entry in as_entries(message)],
                tools=[as_function(tool) for tool in probe.tools] or None,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=True,
            )
            for probe in probes()
        }
        for name, template in (("smollm2", SMOLLM2), ("qwen2", QWEN2), ("qwen3", QWEN3))
    }
    assert rendered == json.loads(RENDERED.read_text())
