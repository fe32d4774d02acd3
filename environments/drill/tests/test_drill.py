from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
SOME = [task.id for task in TASKS[::120]]
SINGLE = [task for task in TASKS if "single" in task.tags]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_gets_full_marks(play, tasks):
    scores = play(ENV, tasks=tasks)
    assert len(scores) == (len(tasks) or 1800)
    assert {str(score) for score in scores.values()} == {"10/10"}


# -- what earns nothing ------------------------------------------------------------------------------------------------


async def do_nothing(agent: Agent, task: Task) -> None:
    await agent.say("Done.")


async def only_look(agent: Agent, task: Task) -> None:
    for path in task.data["files"]:
        await agent.call("bash", command=f"cat {path}")
    await agent.say("Done.")


async def claim_success(agent: Agent, task: Task) -> None:
    for path in task.key["results"]:
        await agent.call("bash", command=f"echo PASSED 10/10 > {path}; exit 0")
    await agent.say("All checks passed: 10/10.")


async def make_empty_results(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f": > {' '.join(task.key['results'])}; touch {' '.join(task.key['results'])}")
    await agent.say("Done.")


async def delete_everything(agent: Agent, task: Task) -> None:
    await agent.call("bash", command="rm -rf /data")
    await agent.say("Done.")


async def list_many_answers(agent: Agent, task: Task) -> None:
    for path in task.key["results"]:
        await agent.call("bash", command=f"seq 0 100 > {path}")
    await agent.say("Done.")


async def link_results_to_folders(agent: Agent, task: Task) -> None:
    for path in task.key["results"]:
        await agent.call("bash", command=f"ln -s /proc {path}")
    await agent.say("Done.")


CHEATS = [
    do_nothing,
    only_look,
    claim_success,
    make_empty_results,
    delete_everything,
    list_many_answers,
    link_results_to_folders,
]


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_earns_nothing(play, cheat):
    assert {score.value for score in play(ENV, cheat, tasks=SOME).values()} == {0.0}


def test_copying_the_input_does_not_pass_for_another_skill(play):
    async def copy_all(agent: Agent, task: Task) -> None:
        for source, target in zip(task.data["files"], task.key["results"], strict=True):
            await agent.call("bash", command=f"cp {source} {target}")
        await agent.say("Done.")

    scores = play(ENV, copy_all, tasks=[f"{skill}-001" for skill in ("first", "pick", "count", "tally", "total", "swap")])
    assert not any(score.passed for score in scores.values())
    assert max(score.value for score in scores.values()) <= 0.3


# -- what earns part of the points -------------------------------------------------------------------------------------


def test_half_of_a_pair_is_worth_half(play):
    async def half(agent: Agent, task: Task) -> None:
        [path, *_] = task.key["results"]
        typed = "\\n".join(task.key["results"][path])
        await agent.call("bash", command=f"printf '{typed}\\n\\n' > {path}")
        await agent.say("Done.")

    pairs = [task.id for task in TASKS if "pair" in task.tags][:10]
    assert {str(score) for score in play(ENV, half, tasks=pairs).values()} == {"5/10"}


def test_one_wrong_line_leaves_the_points_for_the_others(play):
    async def slip(agent: Agent, task: Task) -> None:
        [(path, lines)] = task.key["results"].items()
        await agent.call("bash", command=f"printf '%s\\n' {' '.join([*lines[:-1], 'gnu'])} > {path}")
        await agent.say("Done.")

    for score in play(ENV, slip, tasks=["sort-001", "swap-001", "copy-001"]).values():
        assert 0 < score.value < 0.4


def test_spoiling_a_file_costs_points(play):
    async def careless(agent: Agent, task: Task) -> None:
        for step in (*task.key["steps"], *(f"echo gnu >> {source}" for source in task.data["files"])):
            await agent.call("bash", command=step)
        await agent.say("Done.")

    assert {str(score) for score in play(ENV, careless, tasks=["sort-002", "total-002"]).values()} == {"6/10"}


# -- how tasks are made ------------------------------------------------------------------------------------------------


def test_both_ways_of_doing_a_chore_are_shown_for_every_skill():
    for skill in {task.tags[0] for task in SINGLE}:
        steps = {len(task.key["steps"]) for task in SINGLE if task.tags[0] == skill}
        assert steps == {1, 2}, skill


def test_every_rollout_of_a_task_begins_with_the_same_bytes(tmp_path):
    left: dict[str, list] = {}
    for trace in run(ENV, "scripted:noop", tasks=("sort-001", "pair-001"), group=2, runs=tmp_path):
        left.setdefault(trace.task, []).append(trace.evidence.files)
    for one, other in left.values():
        assert one
        assert one == other


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_every_skill_has_tasks_in_both_splits():
    for split in Split:
        skills = [task.tags[0] for task in tasks_of(ENV, split) if "single" in task.tags]
        assert all(skills.count(task.tags[0]) >= 3 for task in SINGLE), split


def test_no_heldout_task_is_a_train_task_under_another_name():
    train = {(task.prompt, str(task.data)) for task in tasks_of(ENV, Split.TRAIN)}
    assert not [task.id for task in tasks_of(ENV, Split.HELDOUT) if (task.prompt, str(task.data)) in train]


def test_prompts_are_short():
    assert max(len(task.prompt) for task in TASKS) < 200
