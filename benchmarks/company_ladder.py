"""How the scores of `company` spread: players from no skill to all of it (`tests/drive/company_players.py`), each on every task.

python benchmarks/company_ladder.py             all tasks, as two Markdown tables
python benchmarks/company_ladder.py 20          the first 20 tasks
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from drive.company_players import ENV, LADDER
from sandlot import run, tasks_of
from sandlot.core.trace import Scored

LEVELS = ("easy", "medium", "hard")


def scores_of(name: str, tasks: tuple[str, ...]) -> dict[str, float]:
    """The score of one player on each task; a rollout that was not scored is an error."""
    ENV.marked.solution = LADDER[name]
    scores = {}
    with tempfile.TemporaryDirectory() as runs:
        for trace in run(ENV, "scripted:golden", tasks=tasks, runs=Path(runs), at_once=8):
            if not isinstance(trace.outcome, Scored):
                raise SystemExit(f"{name}, {trace.task}: {trace.outcome}")
            scores[trace.task] = trace.outcome.score.value
    return scores


def main() -> None:
    chosen = tasks_of(ENV)[: int(sys.argv[1]) if len(sys.argv) > 1 else None]
    levels = {task.id: task.tags[2] for task in chosen}
    by_task: dict[str, list[float]] = defaultdict(list)
    print("| player | mean | easy | medium | hard | 10th, 50th, 90th percentile | tasks with full marks | tasks with nothing |")
    print("|---|---|---|---|---|---|---|---|")
    for name in LADDER:
        scores = scores_of(name, tuple(levels))
        for task, score in scores.items():
            by_task[task].append(score)
        means = [statistics.mean([score for task, score in scores.items() if levels[task] == level] or [0]) for level in LEVELS]
        cuts = statistics.quantiles(scores.values(), n=10, method="inclusive")
        full, none = (sum(score == end for score in scores.values()) for end in (1, 0))
        cells = [f"{statistics.mean(scores.values()):.2f}", *(f"{mean:.2f}" for mean in means)]
        cells += [" ".join(f"{cuts[place]:.2f}" for place in (0, 4, 8)), str(full), str(none)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    distinct = [len(set(scores)) for scores in by_task.values()]
    print(
        f"\n{len(by_task)} tasks; different scores of a task over the {len(LADDER)} players: {min(distinct)} to {max(distinct)},"
    )
    print(f"median {statistics.median(distinct):g}.")


if __name__ == "__main__":
    main()
