"""TextArena's own games and ours on the same moves: `make test-interop KIND=textarena`."""

import random
import signal
from multiprocessing import active_children

import anyio
import numpy as np
import pytest
import textarena

import sandlot
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.interop.packages.textarena_world import started_game

GAMES = {
    "GuessTheNumber-v0": ["[10]", "[5]", "[7]", "[3]", "[1]", "[15]", "[12]", "[18]", "[20]", "[2]", "[4]"],
    "Mastermind-v0": ["[1 2 3 4]", "[2 3 4 5]", "[6 5 4 3]", "[1 1 2 2]"],
    "TowerOfHanoi-v0": ["[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"],
    "FrozenLake-v0": ["[right]", "[down]", "[right]", "[down]"],
    "2048-v0": ["[left]", "[up]", "[left]", "[down]"],
    "Minesweeper-v0": ["nonsense", "nonsense", "nonsense"],
}


def taken(source, folder):
    import_environment("textarena", source, folder / "game")
    return sandlot.load(folder / "game")


def play(env, task, moves):
    async def run():
        async with env.session(task) as session:
            await session.reset()
            texts = []
            for number, move in enumerate([None, *moves]):
                call = ToolCall(f"c{number}", *(("look", {}) if move is None else ("act", {"move": move})))
                result = (await session.step(Message(role=Role.ASSISTANT, parts=(call,)))).messages[0].results[0]
                if result.error:
                    break
                texts.append(result.text)
            return texts, session.world.state

    return anyio.run(run)


def really_played(game, seed, moves):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global one is the game's
    env = textarena.make(f"{game}-raw")
    env.reset(num_players=1, seed=seed)
    texts = ["\n".join(each[1] for each in env.get_observation()[1])]
    for move in moves:
        done, _ = env.step(move)
        texts.append("\n".join(each[1] for each in env.get_observation()[1]))
        if done:
            return texts, env.close()[0][0]
    return texts, None


@pytest.mark.parametrize("game", GAMES)
def test_the_same_moves_give_the_same_game_and_reward(game, tmp_path):
    env = taken(f"{game}?seeds=3", tmp_path)
    for seed in range(3):
        theirs, reward = really_played(game, seed, GAMES[game])
        ours, state = play(env, f"{game}-{seed}", GAMES[game])
        assert len(ours) == len(theirs)
        assert all(found.startswith(text) for found, text in zip(ours, theirs, strict=True))
        assert state["reward"] == reward


def test_games_beside_each_other_do_not_change_each_other():
    texts, found = [], []
    with started_game("2048-v0-raw", 5) as alone:
        for _ in range(6):
            alone.act("[left]")
            alone.act("[up]")
            texts.append(alone.seen)
    with started_game("2048-v0-raw", 5) as first, started_game("2048-v0-raw", 6) as other:
        for _ in range(6):
            random.random()
            first.act("[left]")
            other.act("[down]")
            first.act("[up]")
            found.append(first.seen)
    assert found == texts


def test_a_rollout_that_is_cancelled_ends_its_game(tmp_path):
    env = taken("2048-v0?seeds=1", tmp_path)

    async def cancelled():
        with anyio.CancelScope() as scope:
            async with env.session("2048-v0-0") as session:
                await session.reset()
                assert len(active_children()) == 1
                scope.cancel()
                await anyio.sleep(1)

    anyio.run(cancelled)
    assert active_children() == []


def test_a_game_ends_with_the_process_whatever_handles_its_signals():
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with started_game("2048-v0-raw", 5):
            (child,) = active_children()
            child.terminate()
            child.join(30)
            assert child.exitcode == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def test_scores_are_the_games_rewards(tmp_path):
    env = taken("TowerOfHanoi-v0?seeds=1", tmp_path)
    assert sandlot.run(env, "scripted:noop", runs=tmp_path / "runs").summary().score.value == 0.0
    _, state = play(env, "TowerOfHanoi-v0-0", GAMES["TowerOfHanoi-v0"])
    assert state["reward"] == 1


def test_a_reward_that_is_no_number_is_the_games_failure():
    def blunder(game):
        for _ in range(3):
            game.act("nonsense")

    with started_game("Countdown-v0-raw", 1) as game, pytest.raises(AuthorError, match="no number"):
        blunder(game)


@pytest.mark.parametrize("source", ["NoSuchGame-v0", "Chess-v0", "Checkers-v0", "Nim-v0", "2048-v0?seeds=0", "2048-v0?size=3"])
def test_games_that_cannot_be_taken_are_refused(source, tmp_path):
    with pytest.raises(ConfigError):
        taken(source, tmp_path)
