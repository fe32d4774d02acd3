"""A tour without a model: run three ready environments with a scripted agent, and print the scores.

The scripted agent plays the golden solution with probability 0.6. Its rollouts are graded and stored like those of a model.
"""

import sandlot

ENVIRONMENTS = {"arithmetic": 8, "helpdesk": 4, "ledger": 4}


def main() -> None:
    for name, group in ENVIRONMENTS.items():
        run = sandlot.run(name, "scripted:mixed:0.6", group=group)
        summary = run.summary()
        score, failed = summary.score, sum(summary.failed.values())
        print(f"{name}: {len(run)} rollouts, score {score.value:.2f} ({score.low:.2f} to {score.high:.2f}), {failed} failed")
        print(f"  every rollout: sandlot show {run.path}")


if __name__ == "__main__":
    main()
