"""A tour without a model: three ready environments with a scripted agent of mixed skill, and what came out.

An agent that knows the golden solution with probability 0.6 takes a model's place: every number below comes from real rollouts,
graded and stored like any other.
"""

from pathlib import Path

import sandlot

ENVIRONMENTS = {"arithmetic": 8, "helpdesk": 4, "ledger": 4}


def main() -> None:
    for name, group in ENVIRONMENTS.items():
        run = sandlot.run(Path("environments") / name, "scripted:mixed:0.6", group=group)
        summary = run.summary()
        score, failed = summary.score, sum(summary.failed.values())
        print(f"{name}: {len(run)} rollouts, score {score.value:.2f} ({score.low:.2f} to {score.high:.2f}), {failed} failed")
        print(f"  every rollout: sandlot show {run.path}")


if __name__ == "__main__":
    main()
