"""A training whose rollouts are sampled by our own servers, which get its adapters; one of them is killed and started again."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from drive.model_servers import ModelServer
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampling
from sandlot.model.endpoint.tokens import open_remote, remote_config
from sandlot.model.engine.weights import model_folder
from sandlot.observe.events import RunEvent, TurnTaken
from sandlot.store.reader import RunReader
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Clip
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.train import train_async
from sandlot.train.trainer import Optimisation

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture
def opened():
    with ExitStack() as stack:

        def start(folder: Path, rank: int = 16, model: str = "rookie") -> ModelServer:
            # In the trainer's type: where the processor has bf16, a server computes in it, and log-probabilities are rounded.
            words = ["--adapters-from", str(folder), "--max-adapter-rank", str(rank), "--dtype", "float32"]
            server = ModelServer(*words, model=model)
            stack.callback(server.close)
            server.wait()
            return server

        yield start


def recipe(servers: list[ModelServer], *, name: str = "rookie", **changed) -> Recipe:
    settings = {
        "name": "served, by ours",
        "env": ROOT / "recipes" / "pretend.py",
        "model": "rookie",
        "server": f"sandlot:{name}@{','.join(server.url for server in servers)}",
        "lora": 16,
        "steps": 3,
        "tasks": 4,
        "group": 4,
        "staleness": 1,
        "resample": 1,
        "select": lambda task: "single" in task.tags,
        "algorithm": PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28, against="behaviour")),
        "optimisation": Optimisation(learning_rate=3e-3, tokens=1024),
        "sampling": Sampling(max_tokens=48),
        "evaluation": Evaluation(every=3, tasks=4, group=2),
        "at_once": 16,
    }
    return Recipe(**settings | changed)


async def names_at(server: ModelServer) -> list[str]:
    async with open_remote(remote_config("sandlot", f"rookie@{server.url}"), environ={}) as model:
        return [each.id for each in await model.list_models()]


def require_learned(progress: TrainingProgress, steps: int = 3) -> None:
    """Every step learned from what the version before it, or the one before that, has sampled; nothing failed."""
    assert [step.version for step in progress.steps] == [*range(1, steps + 1)]
    assert not any(step.failed for step in progress.steps)
    assert progress.steps[0].kl < 1e-5, "the server and the trainer begin with the same weights"
    assert max(step.staleness for step in progress.steps) <= 1
    measured = RunReader(progress.path / "evaluations" / f"{steps:06d}")
    nodes = [node for key in measured.done_keys() for node in measured.trace(*key).nodes if node.tokens]
    assert {version for node in nodes for _, version in node.tokens.versions} == {steps}


async def test_the_only_model_of_a_server_needs_no_name(opened, tmp_path):
    """A model from a folder has its whole name there, which nobody would write."""
    server = opened(tmp_path, model=f"hf:{model_folder('rookie')}")
    require_learned(await train_async(recipe([server], name=""), tmp_path / "run"))


async def test_a_training_learns_through_two_servers_and_leaves_nothing_loaded(opened, tmp_path):
    servers = [opened(tmp_path), opened(tmp_path)]
    replicas: set[str] = set()

    def watch(event: RunEvent) -> None:
        if isinstance(event, TurnTaken) and event.replica is not None:
            replicas.add(event.replica.name)

    progress = await train_async(recipe(servers), tmp_path / "run", watch)
    require_learned(progress)
    assert len(replicas) == 2
    assert [await names_at(server) for server in servers] == [["rookie"], ["rookie"]]


async def test_a_server_killed_in_the_middle_gets_the_adapters_again(opened, tmp_path):
    servers = [opened(tmp_path), opened(tmp_path)]
    taken: list[str] = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, TurnTaken):
            taken.append(event.replica.name)
            if len(taken) == 24:
                servers[0].kill()
                servers[0].start()

    steps = 12
    evaluation = Evaluation(every=steps, tasks=4, group=2)
    progress = await train_async(recipe(servers, name="", steps=steps, evaluation=evaluation), tmp_path / "run", watch)
    require_learned(progress, steps)
    assert servers[0].url in taken[40:], "it has had work again, with the adapters: every rollout would fail without"
    servers[0].wait()
    assert [await names_at(server) for server in servers] == [["rookie"], ["rookie"]]


@pytest.mark.parametrize(
    ("below", "rank", "fix"),
    [("elsewhere", 16, r"--adapters-from FOLDER`, where FOLDER is above"), (".", 4, r"--max-adapter-rank")],
)
async def test_a_server_that_may_not_load_them_says_how_to_start_it(opened, tmp_path, below, rank, fix):
    (tmp_path / "elsewhere").mkdir()
    server = opened(tmp_path / below, rank=rank)
    with pytest.raises(ModelError, match=rf"adapter of version 0 was not loaded.*{fix}"):
        await train_async(recipe([server]), tmp_path / "run")
