"""Job folders as Harbor writes them, and as nobody should."""

import json

AGENT = {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "small", "provider": "local"}}


def step(source="agent", message="Done.", **fields):
    return {"step_id": 1, "source": source, "message": message, **fields}


def trajectory(*steps, **fields):
    agent = {"name": "terminus-2", "version": "2.0.0", "model_name": "local/small"}
    return {"schema_version": "ATIF-v1.8", "agent": agent, "steps": list(steps or [step("user", "Do it."), step()]), **fields}


def result(**fields):
    return {
        "task_name": "add",
        "trial_name": "add__one",
        "task_checksum": "c0",
        "source": "sums",
        "agent_info": AGENT,
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": "2026-11-16T23:19:33Z",
        "finished_at": "2026-11-16T23:20:13Z",
        "agent_execution": {"started_at": "2026-11-16T23:20:01Z", "finished_at": "2026-11-16T23:20:06Z"},
        **fields,
    }


def exception(kind, message="it broke"):
    return {
        "exception_type": kind,
        "exception_message": message,
        "exception_traceback": "",
        "occurred_at": "2026-11-16T23:20:06Z",
    }


def write_trial(folder, *, agent_wrote=None, **fields):
    """A trial's folder; without `agent_wrote`, with a trajectory of one turn."""
    (folder / "agent").mkdir(parents=True)
    written = result(trial_name=folder.name, **fields)
    (folder / "result.json").write_text(json.dumps(written))
    (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory() if agent_wrote is None else agent_wrote))
    return folder


def write_job(folder, **fields):
    """A job's own result; its trials are folders in it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        "n_total_trials": 1,
        "started_at": "2026-11-16T23:19:31",
        "finished_at": "2026-11-16T23:20:31",
        "stats": {"n_retries": 0},
        **fields,
    }
    (folder / "result.json").write_text(json.dumps(written))
    return folder
