"""Makes `rookie`, the small model that comes with Sandlot: demonstrations, tokenizer, training, stopping rule, model card.

    python recipes/rookie.py                                  everything, on the CPU, into src/sandlot/model/engine/rookie
    python recipes/rookie.py --prepare FOLDER                 demonstrations and tokenizer only, as FOLDER/tokens.npz
    python recipes/rookie.py --tokens FOLDER/tokens.npz --device cuda    training only; keeps every checkpoint next to the tokens
    python recipes/rookie.py --choose FOLDER                  apply the stopping rule to kept checkpoints, and write the card
    python recipes/rookie.py --table                          write the table of environments/README.md

Demonstrations are golden solutions of the train split only. Training needs torch, numpy and safetensors, and nothing else.

The stopping rule was fixed before any result of reinforcement learning was seen. After every `EVERY` steps the checkpoint tries
`JUDGED` tasks of drill's train split once, sampled at temperature 1. The first checkpoint with full marks on a share of `ENOUGH`
becomes rookie: it can use the tool, and succeeds sometimes.
"""

import argparse
import hashlib
import json
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # a machine that only trains has no sandlot installed

from sandlot.model.nn.decoder import Attend, Block, Decoder  # noqa: E402
from sandlot.model.nn.folder import load_folder, save_folder  # noqa: E402
from sandlot.model.nn.shape import Shape  # noqa: E402

ENVIRONMENTS = {"arithmetic": 40, "helpdesk": 6, "drill": 1}
"""Number of seeds of each: a small model needs many different numbers to learn to copy, and drill has enough in one seed."""
HOME = ROOT / "src" / "sandlot" / "model" / "engine" / "rookie"
SEED = 2026
VOCABULARY = 1536
CONTEXT = 2048

FIRST = 12_000
"""First steps, without drill: the other environments take longer to learn, and the stopping rule measures drill."""
STEPS = 4000
EVERY = 250
JUDGED = 160
ENOUGH = 0.35

BATCH_TOKENS = 4096
LEARNING_RATE = 3e-3
WARM_UP = 100


# -- demonstrations ----------------------------------------------------------------------------------------------------


def play_golden(runs: Path) -> dict[str, tuple[list[Any], list[Any]]]:
    """For every environment: the golden conversations of its train split, for several seeds, and its tools.

    Another seed's train split may have a question of the first seed's held-out split: such conversations are left out.
    """
    import sandlot  # noqa: PLC0415 - a machine that only trains lacks what this needs

    played = {}
    for name, seeds in ENVIRONMENTS.items():
        held: set[str] = set()
        conversations: list[list[Any]] = []
        for seed in range(seeds):
            env = sandlot.load(ROOT / "environments" / name)
            env.seed += seed
            if seed == 0 and seeds > 1:
                heldout = sandlot.run(env, "scripted:golden", split=sandlot.Split.HELDOUT, runs=runs / "heldout")
                held = {asked(trace) for trace in heldout}
            run = sandlot.run(env, "scripted:golden", split=sandlot.Split.TRAIN, runs=runs / str(seed))
            traces = sorted(run, key=lambda trace: trace.task)
            assert all(trace.reward == 1.0 for trace in traces), f"a golden solution of {name} did not get full marks"
            conversations += [[node.message for node in trace.path()] for trace in traces if asked(trace) not in held]
        played[name] = (conversations, [tool.spec for tool in env.tools])
    return played


def asked(trace: Any) -> str:
    """All messages of the environment: what a model sees of a task."""
    return "\n".join(str(node.message) for node in trace.nodes if not node.sampled)


def train_tokenizer(texts: list[str], folder: Path) -> None:
    """Write a byte-level BPE (one token per digit, punctuation separate from words, a path as one word) and its config files."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415 - as above

    from sandlot.model.render.families.rookie import CONTROL_TOKENS, tokenizer_config  # noqa: PLC0415 - as above

    tokenizer = Tokenizer(models.BPE())
    words = Regex(r"\d| ?[\p{L}/_-]+| ?[^\s\d\p{L}/_-]+|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=8,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id(CONTROL_TOKENS[0])
    write_json(folder / "tokenizer_config.json", tokenizer_config(CONTEXT))
    write_json(folder / "generation_config.json", {"eos_token_id": end, "pad_token_id": end, "do_sample": True})
    write_json(folder / "config.json", {"eos_token_id": end, "pad_token_id": end})


def spoken_texts(played: dict[str, tuple[list[Any], list[Any]]]) -> list[str]:
    """All text between control tokens, on which the tokenizer is trained."""
    from sandlot.model.render.families.rookie import rookie  # noqa: PLC0415 - as above
    from sandlot.model.render.family import turn_pieces  # noqa: PLC0415 - as above

    family = rookie()
    texts = []
    for conversations, tools in played.values():
        for messages in conversations:
            head = family.head(messages, tools)
            pieces = [*head.pieces, *turn_pieces(family, head.messages)]
            texts += "".join(piece if isinstance(piece, str) else "\0" for piece in pieces).split("\0")
    return [text for text in texts if text]


def prepare(folder: Path) -> Path:
    """Write the demonstrations as tokens, the only input of training, and the tokenizer next to them."""
    from sandlot.model.render.open import open_renderer  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as runs:
        played = play_golden(Path(runs))
    train_tokenizer(spoken_texts(played), folder)
    renderer = open_renderer(folder)
    shown = [renderer.demonstration(messages, tools) for conversations, tools in played.values() for messages in conversations]
    np.savez_compressed(
        folder / "tokens.npz",
        ids=np.concatenate([np.array(one.ids, np.int32) for one in shown]),
        mask=np.concatenate([np.array(one.mask, np.uint8) for one in shown]),
        lengths=np.array([len(one.ids) for one in shown], np.int32),
        drill=np.concatenate([np.full(len(conversations), name == "drill") for name, (conversations, _) in played.items()]),
        vocabulary=np.array(len(renderer.tokenizer), np.int32),
    )
    counts = {name: len(conversations) for name, (conversations, _) in played.items()}
    write_json(folder / "demonstrations.json", {"demonstrations": counts, "tokens": sum(len(one.ids) for one in shown)})
    return folder / "tokens.npz"


# -- training ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Document:
    ids: Tensor
    mask: Tensor
    """1 for tokens of the assistant."""
    drill: bool


def read_documents(file: Path, device: str) -> tuple[list[Document], int]:
    """The demonstrations, and the size of the vocabulary."""
    stored = np.load(file)
    ends = np.cumsum(stored["lengths"])[:-1]
    ids, masks = (np.split(stored[name], ends) for name in ("ids", "mask"))
    documents = [
        Document(
            torch.tensor(one, dtype=torch.long, device=device), torch.tensor(mask, dtype=torch.bool, device=device), bool(drill)
        )
        for one, mask, drill in zip(ids, masks, stored["drill"], strict=True)
    ]
    return documents, int(stored["vocabulary"])


def new_decoder(vocabulary: int) -> Decoder:
    """A Llama with two million parameters, initialised to copy.

    Value and output projections of attention start as each other's transpose: the model copies what it attends to, and training
    only has to learn where to attend. One trial each: with zero outputs the loss on file names at step 400 was that of guessing
    (3.25 nats, at learning rate 3e-3); with these it was 1.1 to 1.3 at step 200 (at 2e-3).
    """
    torch.manual_seed(SEED)
    width = 192
    shape = Shape(
        family="llama",
        vocabulary=vocabulary,
        hidden=width,
        layers=4,
        heads=6,
        kv_heads=6,
        head=32,
        mlp=512,
        context=CONTEXT,
        tied=True,
    )
    decoder = Decoder(shape)
    for parameter in decoder.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    with torch.no_grad():
        for block in cast("Iterable[Block]", decoder.blocks):
            values = torch.linalg.qr(torch.randn(width, width))[0]
            block.qkv.weight[2 * width :] = values
            block.output.weight.copy_(values.T / 4)
            block.down.weight.zero_()
    return decoder


def batches(documents: list[Document], rng: random.Random) -> list[list[Document]]:
    """One epoch: batches of documents of similar length, in random order."""
    order = sorted((len(document.ids) + rng.randrange(24), at) for at, document in enumerate(documents))
    made: list[list[Document]] = [[]]
    for _, at in order:
        batch = [*made[-1], documents[at]]
        if made[-1] and max(len(document.ids) for document in batch) * len(batch) > BATCH_TOKENS:
            made.append([documents[at]])
        else:
            made[-1] = batch
    rng.shuffle(made)
    return made


def rows_of(count: int, length: int) -> Attend:
    """Causal attention within each row of a padded batch; padding is at the end, so no real token attends to it."""

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(0, (count, length)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(0, 1)

    return attend


def loss_of(decoder: Decoder, batch: list[Document]) -> Tensor:
    """Mean negative log-probability of the assistant's tokens."""
    ids = torch.nn.utils.rnn.pad_sequence([document.ids for document in batch], batch_first=True)
    said = torch.nn.utils.rnn.pad_sequence([document.mask for document in batch], batch_first=True)[:, 1:]
    count, length = ids.shape
    positions = torch.arange(length, device=ids.device).repeat(count)
    hidden = decoder(ids.flatten(), positions, rows_of(count, length)).unflatten(0, (count, length))
    return F.cross_entropy(decoder.logits(hidden[:, :-1][said]).float(), ids[:, 1:][said])


def train(file: Path, device: str, first: int = FIRST) -> Iterator[tuple[int, Decoder]]:
    """AdamW with warm-up, a cosine over the first steps, then a constant rate; yields the decoder after every `EVERY` steps.

    The `first` steps are without drill and are not counted; after them every other batch is drill's.
    """
    documents, vocabulary = read_documents(file, device)
    drill = [document for document in documents if document.drill]
    others = [document for document in documents if not document.drill]
    decoder = new_decoder(vocabulary).to(device)
    matrices = [parameter for parameter in decoder.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in decoder.parameters() if parameter.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=LEARNING_RATE, betas=(0.9, 0.95)
    )
    rng = random.Random(SEED)  # noqa: S311 - seeded, not secret
    waiting: dict[bool, list[list[Document]]] = {False: [], True: []}
    seen: list[Tensor] = []
    for step in range(1 - first, STEPS + 1):
        of_drill = step > 0 and step % 2 == 1
        waiting[of_drill] = waiting[of_drill] or batches(drill if of_drill else others, rng)
        done = step + first
        rate = LEARNING_RATE * min(1.0, done / WARM_UP) * (0.8 + 0.2 * math.cos(math.pi * min(1.0, done / max(1, first))))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(decoder, waiting[of_drill].pop())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.detach())
        if step % EVERY == 0 and step > 0:
            print(f"step {step}: loss {torch.stack(seen).mean().item():.4f}", flush=True)
            seen.clear()
            yield step, decoder


# -- when to stop ------------------------------------------------------------------------------------------------------


def save(decoder: Decoder, folder: Path, like: Path) -> Path:
    """A checkpoint as a Hugging Face folder, in bfloat16, with the tokenizer of `like`."""
    save_folder(decoder, folder, dtype=torch.bfloat16, like=like)
    return folder


def full_marks(folder: Path) -> float:
    """The share of `JUDGED` train tasks of drill with full marks, one rollout each at temperature 1."""
    import sandlot  # noqa: PLC0415 - a machine that only trains lacks what this needs

    env = sandlot.load(ROOT / "environments" / "drill")
    tasks = [task.id for task in sandlot.tasks_of(env, sandlot.Split.TRAIN)]
    chosen = tuple(random.Random(SEED).sample(sorted(tasks), JUDGED))  # noqa: S311 - seeded, not secret
    with tempfile.TemporaryDirectory() as runs:
        return sandlot.run(env, f"hf:{folder}", tasks=chosen, runs=runs).summary().pass_rate.value


def choose(folder: Path, checkpoints: Iterable[Path], home: Path) -> None:
    """Apply the stopping rule to checkpoints in order; install the first that is good enough, else the last, in `home`."""
    rates: dict[str, float] = {}
    chosen = None
    for chosen in checkpoints:
        rates[chosen.name] = full_marks(chosen)
        print(f"{chosen.name}: full marks on {rates[chosen.name]:.1%} of {JUDGED} train tasks", flush=True)
        if rates[chosen.name] >= ENOUGH:
            break
    assert chosen is not None, f"no checkpoints in {folder}"
    install(chosen, folder, home, rates)


def install(checkpoint: Path, folder: Path, home: Path, rates: dict[str, float]) -> None:
    """Copy the chosen checkpoint to where `--model rookie` looks, with its card."""
    if home.exists():
        shutil.rmtree(home)
    shutil.copytree(checkpoint, home)
    weights = (home / "model.safetensors").read_bytes()
    decoder = load_folder(home)
    card = {
        "what": "rookie: a small model that can use tools in a few environments, for first runs, tests and demonstrations",
        "made_by": "recipes/rookie.py",
        **json.loads((folder / "demonstrations.json").read_text()),
        "data": "golden solutions on the train splits of several seeds of each environment, without what held-out tasks ask",
        "seed": SEED,
        **json.loads((folder / "training.json").read_text()),
        "parameters": sum(parameter.numel() for parameter in decoder.parameters()),
        "steps": int(checkpoint.name.removeprefix("step-")),
        "stopping_rule": f"every {EVERY} steps, {JUDGED} train tasks of drill once each at temperature 1; "
        f"stop at the first checkpoint with full marks on {ENOUGH:.0%}, at the latest after {STEPS} steps",
        "full_marks": rates,
        "torch": torch.__version__,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "license": "Apache-2.0",
    }
    write_json(home / "card.json", card)


# -- the table ---------------------------------------------------------------------------------------------------------

READY = ("arithmetic", "helpdesk", "drill", "ledger", "terminal", "repo-repair")
PAGE = ROOT / "environments" / "README.md"
MARKS = ("<!-- written by `recipes/rookie.py --table` -->", "<!-- end -->")


def table(model: str, group: int) -> str:
    """One line per ready environment, from rollouts on its held-out tasks."""
    import sandlot  # noqa: PLC0415 - a machine that only trains lacks what this needs

    lines = [
        "| environment | held-out tasks, rollouts | full marks (95 %) | score (95 %) | valid calls | out of room |",
        "|---|---|---|---|---|---|",
    ]
    for name in READY:
        env = sandlot.load(ROOT / "environments" / name)
        with tempfile.TemporaryDirectory() as runs:
            run = sandlot.run(env, model, split=sandlot.Split.HELDOUT, group=group, runs=runs)
            summary, valid = run.summary(), valid_share(run, {tool.spec.name: tool.spec.parameters for tool in env.tools})
        full, score, cut = summary.pass_rate, summary.score, summary.ends.get("token_limit", 0) / summary.rollouts
        lines.append(
            f"| `{name}` | {summary.tasks}, {summary.rollouts} | {full.value:.0%} ({full.low:.0%} to {full.high:.0%}) "
            f"| {score.value:.2f} ({score.low:.2f} to {score.high:.2f}) | {valid} | {cut:.0%} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def valid_share(run: Any, schemas: dict[str, Any]) -> str:
    """The share of tool calls that could be read, name an existing tool and have its arguments."""
    calls = [call for trace in run for node in trace.turns() for call in node.message.calls]
    valid = 0
    for call in calls:
        schema = schemas.get(call.name)
        if schema is not None and call.malformed is None:
            valid += set(schema.get("required", ())) <= call.arguments.keys() <= schema["properties"].keys()
    return f"{valid / len(calls):.0%} of {len(calls)}" if calls else "none made"


def write_table(model: str, group: int) -> None:
    before, rest = PAGE.read_text().split(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{table(model, group)}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


# -- the command -------------------------------------------------------------------------------------------------------


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))


def checkpoints(tokens: Path, device: str, first: int) -> Iterator[Path]:
    """Train, and save a checkpoint next to the tokens after every `EVERY` steps; training ends when the caller stops."""
    write_json(tokens.parent / "training.json", {"first": first, "device": device})
    for step, decoder in train(tokens, device, first):
        yield save(decoder, tokens.parent / f"step-{step}", like=tokens.parent)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="only write demonstrations and tokenizer")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="only train, on prepared tokens")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--first", type=int, default=FIRST, metavar="STEPS", help="first steps, without drill")
    parser.add_argument("--choose", type=Path, metavar="FOLDER", help="only apply the stopping rule to kept checkpoints")
    parser.add_argument("--home", type=Path, default=HOME, help="where the finished model goes")
    parser.add_argument("--table", action="store_true", help="only run all environments, and write the table")
    parser.add_argument("--model", default="rookie", help="the model of the table")
    parser.add_argument("--group", type=int, default=4, help="rollouts of each task in the table")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order: the same seed gives the same model
    if asked.prepare:
        print(prepare(asked.prepare))
    elif asked.tokens:
        for checkpoint in checkpoints(asked.tokens, asked.device, asked.first):
            print(checkpoint, flush=True)
    elif asked.choose:
        choose(asked.choose, kept(asked.choose), asked.home)
    elif asked.table:
        write_table(asked.model, asked.group)
    else:
        with tempfile.TemporaryDirectory() as folder:
            choose(Path(folder), checkpoints(prepare(Path(folder)), asked.device, asked.first), asked.home)


if __name__ == "__main__":
    main()
