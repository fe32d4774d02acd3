import json

import pytest

from builders.pictures import png
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Cancelled, Failed, ImagePart
from sandlot.interop.harbor import trajectory as trajectory_module
from sandlot.interop.harbor.log import HarborLogReader
from sandlot.interop.logged_runs import import_run, log_readers
from unit.interop.harbor.harbor_logs import AGENT, exception, step, trajectory, write_job, write_trial


def read(source):
    with HarborLogReader().open(str(source)) as logged:
        return logged, [each.trace for each in logged.rollouts]


def only(folder, **fields):
    _, (trace,) = read(write_trial(folder / "add__one", **fields))
    return trace


def told(tmp_path, *steps, **fields):
    return only(tmp_path, agent_wrote=trajectory(*steps, **fields))


def test_a_job_becomes_a_run(tmp_path):
    job = write_job(tmp_path / "job", n_total_trials=4, stats={"n_retries": 3})
    write_trial(job / "add__b", started_at="2026-11-16T23:19:35Z", verifier_result={"rewards": {"reward": 0}})
    write_trial(job / "add__a", started_at="2026-11-16T23:19:33Z")
    write_trial(job / "more__c", task_name="org/more", verifier_result=None, exception_info=exception("VerifierTimeoutError"))
    (job / "add__d").mkdir()
    (job / "add__d" / "config.json").write_text("{}")
    assert "harbor-log" in log_readers()
    run = import_run("harbor-log", str(job), tmp_path / "run")
    assert (run.verdict, len(run), run.summary().wall_s) == ("incomplete", 3, 60.0)
    assert [(row.task, row.rollout, row.score, row.side, row.kind) for row in run.rows] == [
        ("add", 0, 1.0, None, None),
        ("org-more", 0, None, "grader", "timeout"),
        ("add", 1, 0.0, None, None),
    ]
    assert (run.manifest.environment, run.manifest.config.model.spec) == ("sums", "local/small")
    notes = json.loads((run.path / "import.json").read_text())["notes"]
    assert "trials without a reward: 1. Harbor's mean counts each as 0; here they failed, and have none" in notes
    assert "exceptions that Harbor recorded: VerifierTimeoutError 1" in notes
    assert "trials that had not ended, and have no `result.json`: 1" in notes
    assert "attempts that Harbor repeated and did not keep: 3" in notes


# -- a failure is never a reward ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "side", "failure"),
    [
        ("EnvironmentStartTimeoutError", "sandbox", "timeout"),
        ("SandboxLikelyOutOfMemoryError", "sandbox", "memory"),
        ("ApiRateLimitError", "model", "rate_limit"),
        ("InternalServerError", "model", "server"),
        ("VerifierTimeoutError", "grader", "timeout"),
        ("RewardFileNotFoundError", "grader", "no_score"),
        ("NonZeroAgentExitCodeError", "harness", "agent"),
        ("KeyError", "harness", "crash"),
    ],
)
def test_what_broke_has_no_reward_even_if_the_verifier_gave_one(tmp_path, kind, side, failure):
    trace = only(tmp_path, exception_info=exception(kind), verifier_result={"rewards": {"reward": 0.0}})
    assert trace.outcome == Failed(side=side, kind=failure, message=f"{kind}: it broke")
    assert (trace.end.value, trace.reward) == ("cut", None)


@pytest.mark.parametrize(
    ("kind", "end"),
    [("AgentTimeoutError", "time_limit"), ("ContextWindowExceededError", "token_limit"), ("AgentSafetyRefusalError", "refused")],
)
def test_what_the_agent_did_itself_is_an_end_that_is_graded(tmp_path, kind, end):
    trace = only(tmp_path / "a", exception_info=exception(kind), verifier_result={"rewards": {"reward": 0.25}})
    assert (trace.end.value, trace.reward) == (end, 0.25)
    ungraded = only(tmp_path / "b", exception_info=exception(kind), verifier_result=None)
    assert (ungraded.outcome.side, ungraded.outcome.kind) == ("grader", "no_score")
    assert kind in ungraded.outcome.message


def test_a_step_that_broke_spoils_the_trial(tmp_path):
    steps = [{"step_name": "one"}, {"step_name": "two", "exception_info": exception("ApiConnectionError")}]
    trial = write_trial(tmp_path / "add__one", step_results=steps)
    for name in ("one", "two"):
        place = trial / "steps" / name / "agent"
        place.mkdir(parents=True)
        (place / "trajectory.json").write_text(json.dumps(trajectory(step("user", f"Step {name}."), step())))
    _, (trace,) = read(trial)
    assert (trace.outcome.side, trace.outcome.kind) == ("model", "connect")
    assert [node.message.text for node in trace.path()] == ["Step one.", "Done.", "Step two.", "Done."]


@pytest.mark.parametrize("rewards", [None, {"rewards": None}, {"rewards": {}}])
def test_a_step_that_was_not_graded_is_no_score_of_the_others(tmp_path, rewards):
    late = {"step_name": "two", "exception_info": exception("AgentTimeoutError"), "verifier_result": rewards}
    steps = [{"step_name": "one", "verifier_result": {"rewards": {"reward": 1.0}}}, late]
    trace = only(tmp_path / "a", step_results=steps)
    assert (trace.outcome.side, trace.outcome.kind, trace.reward) == ("grader", "no_score", None)
    assert "two" in trace.outcome.message
    late["verifier_result"] = {"rewards": {"reward": 0.0}}
    assert only(tmp_path / "b", step_results=steps).reward == 1.0


def test_a_cancelled_trial_is_cancelled(tmp_path):
    assert isinstance(only(tmp_path, exception_info=exception("CancelledError")).outcome, Cancelled)


@pytest.mark.parametrize(
    ("rewards", "kind"), [(None, "no_score"), ({}, "no_score"), ({"reward": None}, "no_score"), ({"reward": "1"}, "bad_value")]
)
def test_a_trial_without_a_number_has_no_reward(tmp_path, rewards, kind):
    assert only(tmp_path, verifier_result={"rewards": rewards}).outcome.kind == kind


def test_nan_is_no_score(tmp_path):
    assert only(tmp_path, verifier_result={"rewards": {"reward": float("nan")}}).outcome.kind == "no_score"


def test_one_of_several_rewards_must_be_chosen(tmp_path):
    trial = write_trial(tmp_path / "add__one", verifier_result={"rewards": {"tests": 1, "style": 0.5}})
    with pytest.raises(ConfigError, match=r"`\?reward=NAME`: tests, style"):
        read(trial)
    assert read(f"{trial}?reward=style")[1][0].reward == 0.5
    with pytest.raises(ConfigError, match="there is no reward `x`"):
        read(f"{trial}?reward=x")


@pytest.mark.parametrize("value", [-1, 5, 10**400])
def test_a_reward_on_another_scale_is_refused_until_it_is_named(tmp_path, value):
    trial = write_trial(tmp_path / "add__one", verifier_result={"rewards": {"reward": value}})
    with pytest.raises(ConfigError, match="is no share of full marks"):
        read(trial)
    if value > 5:
        with pytest.raises(ConfigError, match=r"not from -1 to 5.*`\?score=LOW..HIGH`"):
            read(f"{trial}?score=-1..5")
    else:
        (trace,) = read(f"{trial}?score=-1..5")[1]
        assert trace.reward == (0.0 if value == -1 else 1.0)
    with pytest.raises(ConfigError, match="is no range"):
        read(f"{trial}?score=-1e308..1e308")


def test_a_run_has_one_agent_and_one_model(tmp_path):
    job = write_job(tmp_path / "job", n_total_trials=2)
    write_trial(job / "add__a")
    write_trial(job / "add__b", agent_info={**AGENT, "model_info": {"name": "large", "provider": None}})
    with pytest.raises(ConfigError, match="several agents or models"):
        read(job)
    logged, traces = read(f"{job}?model=large")
    assert (logged.model, logged.num_rollouts, len(traces)) == ("large", 1, 1)
    assert len(read(f"{job}?agent=terminus-2&model=small")[1]) == 1
    with pytest.raises(ConfigError, match="has no such trials"):
        read(f"{job}?model=none")
    with pytest.raises(ConfigError, match="unknown `modle`"):
        read(f"{job}?modle=none")


# -- the conversation --------------------------------------------------------------------------------------------------


def test_steps_become_messages(tmp_path):
    calls = [{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}]
    results = [{"source_call_id": "a", "content": "x.txt"}, {"content": "the screen"}, {"source_call_id": "b", "content": "odd"}]
    acted = step(
        message="I look.",
        reasoning_content="Where?",
        tool_calls=calls,
        observation={"results": results},
        metrics={"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5},
        timestamp="2026-11-16T23:20:03Z",
        model_name="local/other",
    )
    dispatched = step(message="by rule", llm_call_count=0)
    trace = told(tmp_path, step("system", "Be good."), step("user", "Do it."), acted, dispatched, step())
    assert [node.message.role.value for node in trace.path()] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "assistant",
    ]
    turn = trace.nodes[2]
    assert (turn.sampled, turn.stop, turn.model, turn.start_s) == (True, "calls", "local/other", 2.0)
    assert turn.message.calls[0].arguments == {"command": "ls"}
    assert (turn.usage.prompt_tokens, turn.usage.cached_tokens, turn.usage.usd) == (9, 4, 0.5)
    assert trace.nodes[3].message.results[0].text == "x.txt"
    assert trace.nodes[4].message.text == "the screenodd"
    assert trace.num_turns == 2
    assert trace.phases["agent"] == 5.0


def test_a_conversation_continues_in_the_next_file_without_what_it_repeats(tmp_path):
    trial = write_trial(tmp_path / "add__one", agent_wrote=trajectory(continued_trajectory_ref="trajectory.cont-1.json"))
    following = trajectory(step("user", "Do it.", is_copied_context=True), step("user", "Go on."), step(message="Now done."))
    (trial / "agent" / "trajectory.cont-1.json").write_text(json.dumps(following))
    _, (trace,) = read(trial)
    assert [node.message.text for node in trace.path()] == ["Do it.", "Done.", "Go on.", "Now done."]


def turn_with(prompt, sampled, logprobs=None):
    values = [-0.5] * len(sampled) if logprobs is None else logprobs
    return step(metrics={"prompt_token_ids": prompt, "completion_token_ids": sampled, "logprobs": values})


def test_tokens_are_kept_while_each_prompt_continues_the_last(tmp_path):
    trace = told(tmp_path / "a", turn_with([1, 2], [3]), turn_with([1, 2, 3, 4], [5, 6]))
    assert trace.trainable
    assert [node.tokens.ids_array().tolist() for node in trace.turns()] == [[3], [5, 6]]
    assert [list(memoryview(node.context).cast("i")) for node in trace.turns()] == [[1, 2], [4]]
    retold = told(tmp_path / "b", turn_with([1, 2], [3]), turn_with([1, 9], [5]), turn_with([1, 9, 5], [6]))
    assert [node.tokens is None for node in retold.turns()] == [False, True, True]
    assert not retold.trainable
    odd = (turn_with([1], [2**31]), turn_with([-1], [2]), turn_with([1], [2], [1e39]), turn_with([1], [2], [float("-inf")]))
    for number, bad in enumerate(odd):
        assert [node.tokens for node in told(tmp_path / str(number), bad, turn_with([1, 2], [3])).turns()] == [None, None]


def test_tools_come_from_the_trajectory(tmp_path):
    agent = {"name": "a", "version": "1", "tool_definitions": [{"type": "function", "function": {"name": "bash"}}, {}]}
    logged, _ = read(write_trial(tmp_path / "add__one", agent_wrote=trajectory(agent=agent)))
    assert [tool.name for tool in logged.tools] == ["bash"]


def image_step(path):
    return step("user", [{"type": "text", "text": "See"}, {"type": "image", "source": {"media_type": "image/png", "path": path}}])


def test_images_of_the_trial_are_in_the_run(tmp_path):
    trial = write_trial(tmp_path / "add__one", agent_wrote=trajectory(image_step("images/one.png"), step()))
    (trial / "agent" / "images").mkdir()
    (trial / "agent" / "images" / "one.png").write_bytes(png())
    run = import_run("harbor-log", str(trial), tmp_path / "run")
    (trace,) = run
    (_, part) = trace.nodes[0].message.parts
    assert isinstance(part, ImagePart)
    assert run.reader.blobs.read(part.artifact) == png()


# -- logs of people who mean harm --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/etc/hostname", "../../result.json", "link.png", "folder/one.png", "https://x.test/a.png", ""])
def test_an_image_elsewhere_is_not_read(tmp_path, path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "one.png").write_bytes(png())
    trial = write_trial(tmp_path / "add__one", agent_wrote=trajectory(image_step(path), step()))
    (trial / "agent" / "link.png").symlink_to(tmp_path / "secret" / "one.png")
    (trial / "agent" / "folder").symlink_to(tmp_path / "secret")
    _, (trace,) = read(trial)
    assert trace.nodes[0].message.text == f"See[image: {path}]"


@pytest.mark.parametrize("name", ["agent/trajectory.json", "result.json", "verifier/test-stdout.txt", "agent", "verifier", "."])
def test_links_are_refused(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "trajectory.json").write_text(json.dumps(trajectory()))
    trial = write_trial(tmp_path / "job" / "add__one")
    (trial / "verifier").mkdir()
    place = trial / name
    if place.is_dir():
        place.rename(tmp_path / "moved")
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(tmp_path / "elsewhere" / ("" if name in {"agent", "verifier", "."} else "trajectory.json"))
    with pytest.raises(ConfigError, match=r"is a link|Too many levels|cannot be read"):
        read(tmp_path / "job")


@pytest.mark.parametrize("name", ["../trajectory.json", "/etc/passwd", "trajectory.json", "", "..", "a\nb"])
def test_a_continuation_stays_in_its_folder_and_ends(tmp_path, name):
    with pytest.raises(ConfigError, match="no other file of its folder"):
        told(tmp_path, continued_trajectory_ref=name)


@pytest.mark.parametrize(
    "written",
    [
        {},
        [],
        trajectory(schema_version="ATIF-v9"),
        trajectory(step("root", "x")),
        trajectory(step(tool_calls=[{"tool_call_id": 1, "function_name": "x"}])),
        trajectory(step(message={"a": 1})),
        trajectory(steps="none"),
        trajectory(step(metrics={"prompt_tokens": "many"})),
    ],
)
def test_a_trajectory_of_the_wrong_shape_is_an_error_that_names_the_trial(tmp_path, written):
    with pytest.raises(ConfigError, match="add__one"):
        only(tmp_path, agent_wrote=written)


def test_absurd_numbers_are_bounded(tmp_path):
    metrics = {"prompt_tokens": 10**30, "completion_tokens": -5, "cost_usd": 1e300}
    trace = only(
        tmp_path,
        agent_wrote=trajectory(step(metrics=metrics, timestamp="9999-99-99")),
        started_at="never",
        verifier={"started_at": "0001-01-01T00:00:00Z", "finished_at": "9999-12-31T00:00:00Z"},
    )
    assert (trace.usage.prompt_tokens, trace.usage.completion_tokens, trace.usage.usd) == (2**40, 0, 0.0)
    assert (trace.started, trace.phases["grade"]) == (0.0, 0.0)
    logged, _ = read(write_job(tmp_path / "job", n_total_trials=10**30))
    assert logged.num_rollouts == 100_000_000


def beside_a_good_one(tmp_path, **fields):
    """The run of a job with a good trial and an odd one, and the odd one's folder."""
    job = write_job(tmp_path / "job", n_total_trials=2)
    write_trial(job / "add__a")
    return job, write_trial(job / "odd__b", task_name="odd", **fields)


def imported(job, tmp_path):
    run = import_run("harbor-log", str(job), tmp_path / "run")
    assert [row.score for row in run.rows] == [1.0, 1.0]
    return run.trace("odd"), json.loads((run.path / "import.json").read_text())["notes"]


def test_a_trajectory_that_is_too_large_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(trajectory_module, "_MAX_BYTES", 1_000)
    job, _ = beside_a_good_one(tmp_path, agent_wrote=trajectory(step("user", "x" * 1_000)))
    trace, notes = imported(job, tmp_path)
    assert "at most 1,000 are read" in trace.nodes[0].message.text
    assert any("trajectories that cannot be read: 1" in note for note in notes)


@pytest.mark.parametrize("written", ['{"schema_version": "ATIF-v1.8", "agent": {"na', "", '{"a": "\\ud800"}'])
def test_a_trajectory_that_is_damaged_is_left_out(tmp_path, written):
    job, odd = beside_a_good_one(tmp_path)
    (odd / "agent" / "trajectory.json").write_text(written)
    trace, notes = imported(job, tmp_path)
    assert "cannot be read" in trace.nodes[0].message.text
    assert any("trajectories that cannot be read: 1" in note for note in notes)


def test_whole_numbers_beyond_64_bits_and_deep_values_become_text(tmp_path):
    deep = json.loads("[" * 200 + "]" * 200)
    arguments = {"n": 10**30, "list": [-(10**30), 1, {"m": 2**64}], "deep": deep}
    agent = {"name": "a", "tool_definitions": [{"function": {"name": "x", "parameters": {"maximum": 10**30}}}]}
    calls = [{"tool_call_id": "a", "function_name": "x", "arguments": arguments}]
    job, _ = beside_a_good_one(
        tmp_path,
        agent_wrote=trajectory(step(tool_calls=calls), agent=agent),
        verifier_result={"rewards": {"reward": 1, "other": 10**30}},
        agent_result={"n_input_tokens": 10**30},
        config={"agent": {"kwargs": {"seed": 10**30}}, "timeout_multiplier": 10**30},
        started_at="2026-11-16T00:00:00Z",
    )
    trace, _ = imported(job, tmp_path)
    kept = trace.nodes[0].message.calls[0].arguments
    assert (kept["n"], kept["list"]) == (str(10**30), [str(-(10**30)), 1, {"m": str(2**64)}])
    assert trace.evidence.state["rewards"]["other"] == str(10**30)


@pytest.mark.parametrize("path", ["x" * 5_000, "a/" * 3_000 + "b", "data:image/png;base64," + "A" * 9_000, "large.png"])
def test_an_image_that_cannot_be_read_is_a_line_of_text(tmp_path, path, monkeypatch):
    monkeypatch.setattr(trajectory_module, "MAX_IMAGE_BYTES", 10)
    job, odd = beside_a_good_one(tmp_path, agent_wrote=trajectory(image_step(path), step()))
    (odd / "agent" / "large.png").write_bytes(png())
    assert imported(job, tmp_path)[0].nodes[0].message.text == f"See[image: {path[:200]}]"


def test_the_end_of_a_long_output_is_evidence(tmp_path):
    job, odd = beside_a_good_one(tmp_path)
    (odd / "verifier").mkdir()
    with (odd / "verifier" / "test-stdout.txt").open("wb") as file:
        file.truncate(2**30)
        file.seek(2**30)
        file.write(b"2 passed")
    assert imported(job, tmp_path)[0].outcome.score.checks[0].evidence.endswith("2 passed")


def test_a_link_to_a_file_beside_the_trials_is_no_trial(tmp_path):
    job, _ = beside_a_good_one(tmp_path)
    (job / "job.log").write_text("")
    (job / "latest.log").symlink_to(job / "job.log")
    (job / "gone.log").symlink_to(job / "gone")
    imported(job, tmp_path)


def test_a_result_of_absurd_size_is_refused(tmp_path):
    trial = write_trial(tmp_path / "add__one", filler="x" * 9_000_000)
    with pytest.raises(ConfigError, match=r"at most 8,388,608 are read"):
        read(trial)


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", "", "."])
def test_the_name_of_a_step_is_no_path(tmp_path, name):
    with pytest.raises(ConfigError, match="no name of a folder"):
        only(tmp_path, step_results=[{"step_name": name}])


def test_deep_and_damaged_json_is_an_error(tmp_path):
    trial = write_trial(tmp_path / "add__one")
    for data in ("[" * 100_000, '{"task_name": ', "\x00", "null"):
        (trial / "result.json").write_text(data)
        with pytest.raises(ConfigError, match=r"result\.json"):
            read(trial)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="neither a job nor a trial"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="no file or folder"):
        read(tmp_path / "absent")
    with pytest.raises(ConfigError, match="has no rollouts"):
        import_run("harbor-log", str(write_job(tmp_path / "job")), tmp_path / "run")
