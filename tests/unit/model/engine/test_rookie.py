"""The model that comes with Sandlot: whole, small, and what its card says."""

import hashlib
import json

import torch
import torch.nn.functional as F  # noqa: N812

from sandlot import load
from sandlot.core.task import split_of
from sandlot.core.trace import Message, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.env.taskset import tasks_of
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.folder import load_folder
from sandlot.model.render.open import open_renderer

FOLDER = model_folder("rookie")


def test_the_card_is_of_these_weights():
    card = json.loads((FOLDER / "card.json").read_text())
    assert card["sha256"] == hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest()
    assert card["parameters"] == sum(parameter.numel() for parameter in load_folder(FOLDER).parameters())
    assert set(card["demonstrations"]) == {"arithmetic", "helpdesk", "drill"}


def test_it_is_small_enough_to_ship():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 8_000_000


def test_every_token_of_its_tokenizer_has_a_row():
    assert len(open_renderer(FOLDER).tokenizer) == load_folder(FOLDER).shape.vocabulary


def test_it_was_stopped_by_its_rule():
    *earlier, last = json.loads((FOLDER / "card.json").read_text())["full_marks"].values()
    assert max(earlier, default=0.0) < 0.35 <= last


def demonstrated(env, task):
    """The conversation of a golden solution, with results as a shell would give them for chores of one command."""
    [command] = task.key["steps"]
    return [
        text_message(Role.SYSTEM, env.system),
        text_message(Role.USER, task.prompt),
        Message(role=Role.ASSISTANT, parts=(ToolCall("golden_0", "bash", {"command": command}),)),
        Message(role=Role.TOOL, parts=(ToolResult("golden_0", "(no output)"),)),
        Message(role=Role.ASSISTANT, parts=(Text("Done."),)),
    ]


def test_it_follows_golden_solutions_it_has_never_seen():
    env = load("drill")
    renderer, decoder = open_renderer(FOLDER), load_folder(FOLDER, dtype=torch.float32)
    shown = [task for task in tasks_of(env) if split_of(task) == "heldout" and len(task.key["steps"]) == 1]
    losses = []
    for task in shown:
        one = renderer.demonstration(demonstrated(env, task), [tool.spec for tool in env.tools])
        ids, mask = torch.tensor(one.ids), torch.tensor(one.mask, dtype=torch.bool)
        with torch.inference_mode():
            hidden = decoder(ids, torch.arange(len(ids)), causal_attend())
            losses += F.cross_entropy(decoder.logits(hidden[:-1])[mask[1:]], ids[1:][mask[1:]], reduction="none").tolist()
    assert sum(losses) / len(losses) < 0.5
