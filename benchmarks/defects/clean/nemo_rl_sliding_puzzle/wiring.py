"""The puzzle's own logic, played by a list of moves; solved is right."""

import random

from standins import load, stand_in

stand_in("ray", "torch", "nemo_rl.data.interfaces", "nemo_rl.distributed.batched_data_dict", "nemo_rl.environments.interfaces")
stand_in("nemo_rl.environments.interfaces", EnvironmentInterface=object, EnvironmentReturn=tuple)
puzzle = load("nemo_rl/environments/games/sliding_puzzle.py", "nemo_rl.environments.games.sliding_puzzle")
LOGIC = puzzle.SlidingPuzzleGameLogic
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


def rows():
    for number in range(6):
        random.seed(number + 1)
        state = LOGIC.generate({"size": 3, "shuffle_moves": 3 + 2 * number})
        yield {
            "id": f"slide-{number}",
            "prompt": LOGIC.init(state) + f"\nGrid: {state['grid']} (0 is empty). Reply with the moves, separated by spaces.",
            "golden": solve(state),
            "state": state,
        }


def solve(state):
    import copy

    line, seen = [(state, [])], set()
    while line:
        now, moves = line.pop(0)
        if now["grid"] == now["solution"]:
            return " ".join(moves)
        if str(now["grid"]) in seen:
            continue
        seen.add(str(now["grid"]))
        for move in OPPOSITE:
            after = copy.deepcopy(now)
            _, _, _, after = LOGIC.step(move, after)
            line.append((after, [*moves, move]))
    raise ValueError("no solution")


def grade(answer, row):
    import copy

    state, reward = copy.deepcopy(row["state"]), 0.0
    for move in answer.split()[:40]:
        _, reward, over, state = LOGIC.step(move, state)
        if over:
            break
    return float(reward)
