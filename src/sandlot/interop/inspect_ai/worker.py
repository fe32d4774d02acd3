# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false
"""Runs samples of Inspect's tasks by Inspect's own runner, in the Python that has Inspect. It imports nothing of Sandlot.

    python -P worker.py SOCKET PARENT TASK ARGUMENTS     listen on a Unix socket until the process PARENT is gone

Every connection is one job in a process of its own: importing Inspect and the task takes seconds, forking does not. The first
line names the job. `list` answers with the samples of a task. `play` runs one: each time a model is wanted, the conversation and
the tools are sent, and a message is read; at the end the scores are sent. A model in a role (a judge, a user) is asked the same
way, with the name of the role, if the job says that someone plays it (`roles`); otherwise it refuses.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile


def main(address: str, parent: int, task: dict) -> None:
    """Accept jobs until the parent is gone."""
    with contextlib.suppress(Exception):  # the job will say what is wrong
        load(task)  # before the first fork
    import_all(modules_of_eval())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(64)
    server.settimeout(5)
    while os.getppid() == parent:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            line = connection.makefile("rw", encoding="utf-8", newline="\n")
            send(line, {"pid": os.getpid()})
            serve(line, task)
        connection.close()


def modules_of_eval() -> list[str]:
    """The modules that a first eval imports, found in a process of its own: this one stays without threads and event loops."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with contextlib.suppress(BaseException):
            from inspect_ai import Task
            from inspect_ai import eval as run_eval
            from inspect_ai.dataset import Sample
            from inspect_ai.solver import Solver, solver

            @solver
            def nothing() -> Solver:
                async def solve(state, generate):
                    return state

                return solve

            with tempfile.TemporaryDirectory() as logs:
                run_eval(Task(dataset=[Sample(input="x")], solver=nothing()), model="mockllm/model", display="none", log_dir=logs)
        with os.fdopen(theirs, "w") as pipe:
            pipe.write("\n".join(sys.modules))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        return pipe.read().split()


def import_all(names: list[str]) -> None:
    """Import what can be imported."""
    for name in names:
        with contextlib.suppress(BaseException):
            if name not in sys.modules and not name.startswith("__"):
                importlib.import_module(name)


def serve(line, task: dict) -> None:
    """One job."""
    try:
        job = task | json.loads(line.readline())
        answer = listed(job) if job["job"] == "list" else played(job, line)
    except BaseException as error:
        answer = {"failed": f"{type(error).__name__}: {error}"[:2000]}
    try:
        send(line, answer)
    finally:
        os._exit(0)


def send(line, value) -> None:
    """One line of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    line.write(text.encode("utf-8", "replace").decode() + "\n")  # half of a surrogate pair is no UTF-8
    line.flush()


def load(job):
    """The task that is named: `FILE@task` or `package/task`."""
    from inspect_ai._eval.loader import load_tasks

    tasks = load_tasks([job["source"]], job["arguments"])
    if len(tasks) != 1:
        raise ValueError(f"`{job['source']}` names {len(tasks)} tasks; name one, `FILE@TASK` or `PACKAGE/TASK`")
    return tasks[0]


def listed(job) -> dict:
    """What a task has."""
    from importlib.metadata import version

    from inspect_ai._util.registry import registry_info
    from pydantic_core import to_jsonable_python

    task = load(job)
    samples = []
    for number, sample in enumerate(task.dataset, 1):
        sandbox = sample.sandbox or task.sandbox
        target = sample.target if isinstance(sample.target, str) else list(sample.target)
        name = sample.id if sample.id is not None else number
        about = {"id": name, "target": target, "sandbox": sandbox.type if sandbox else None}
        samples.append(
            about | ({"metadata": to_jsonable_python(sample.metadata or {}, fallback=str)} if job.get("metadata") else {})
        )
    package = job["source"].partition("/")[0].replace("_", "-") if "@" not in job["source"] else ""
    return {
        "name": task.name,
        "version": version("inspect-ai"),
        "package": package,
        "package_version": version(package) if package else "",
        "scorers": [registry_info(each).name for each in task.scorer or []],
        "samples": samples,
    }


def with_sample(task, name):
    """The task with one sample. Inspect's own filter takes an id for a pattern, and finds no `[issue]x[PERSONA:None]` of tau2."""
    from inspect_ai.dataset import MemoryDataset

    for number, sample in enumerate(task.dataset, 1):
        if name == (number if sample.id is None else sample.id):
            sample.id = name
            task.dataset = MemoryDataset([sample], name=task.dataset.name)
            return task
    raise ValueError(f"the task has no sample {name!r}")


def played(job, line) -> dict:
    """Run one sample with the agent on the other side as its model."""
    import inspect_ai.model._model as model_module
    from inspect_ai import eval as run_eval
    from inspect_ai.model import GenerateConfig, Model

    conversation = Conversation(line)
    agent, role_model = model_apis(conversation, played=bool(job.get("roles")))

    class Roles(dict):
        """Every role is a model of its own: without this, the agent would be its own judge and user."""

        def get(self, role, default=None):
            return Model(role_model(role), GenerateConfig())

    model_module.model_roles = Roles  # in this process only
    with tempfile.TemporaryDirectory() as logs:
        os.environ["INSPECT_CACHE_DIR"] = logs  # an answer that another model gave in the role is not this one's
        (log,) = run_eval(
            with_sample(load(job), job["sample"]),
            model=Model(agent("agent"), GenerateConfig()),
            epochs=1,
            display="none",
            log_dir=logs,
            log_format="eval",
            fail_on_error=False,
            log_realtime=False,
            retry_on_error=0,
            score_display=False,
        )
        return ended(log, job, conversation.refused)


def ended(log, job, refused: list[str]) -> dict:
    """How the sample ended. Its log is read while its folder is there."""
    (sample,) = log.samples or [None]
    if sample is None:
        raise ValueError(f"Inspect ran no sample {job['sample']!r}: {log.error.message if log.error else log.status}")
    scoring = any(event.event == "span_begin" and event.type == "scorers" for event in sample.events)
    scores = {name: json.loads(score.model_dump_json()) for name, score in (sample.scores or {}).items()}
    return {
        "done": True,
        "scores": scores,
        "limit": sample.limit.type if sample.limit else None,
        "error": sample.error.message[:2000] if sample.error else None,
        "scoring": scoring,
        "roles": refused,
    }


class Conversation:
    """Asks the other side for messages, one at a time."""

    def __init__(self, line):
        self.line = line
        self.stopped = False
        self.refused: list[str] = []
        """Roles that were asked, and that nobody plays; empty for a scorer's model without a role."""
        self.lock = None

    async def ask(self, question: dict) -> dict:
        """The answer to a question. Once the other side has ended the sample, every model is at its limit.

        That is raised for every later question too: a solver may catch it and go on, as tau2's does.
        """
        import anyio
        import anyio.to_thread
        from inspect_ai.util import LimitExceededError

        self.lock = self.lock or anyio.Lock()
        async with self.lock:  # solvers and scorers may ask several models at once
            if not self.stopped or question.get("scoring"):
                with anyio.CancelScope(shield=True):  # else the next question would get the answer to this one
                    send(self.line, question)
                    text = await anyio.to_thread.run_sync(self.line.readline)
                answer = json.loads(text) if text else {"stop": True}
                if not answer.get("stop"):
                    return answer
                self.stopped = True
        raise LimitExceededError("custom", value=0, limit=0, message="the other side has ended", source=None)


def model_apis(conversation, *, played: bool) -> tuple:
    """Two model providers: the agent on the other side, and a model in a role, which refuses if nobody plays it."""
    from inspect_ai.log import transcript
    from inspect_ai.model import ModelAPI, modelapi

    def scoring():
        return any(event.event == "span_begin" and event.type == "scorers" for event in transcript().events)

    def question(input, tools):
        return {"messages": [shown(message) for message in input], "tools": [offered(tool) for tool in tools]}

    @modelapi(name="sandlot-role")
    class RoleModel(ModelAPI):
        async def generate(self, input, tools, tool_choice, config):
            if not played:
                conversation.refused.append(self.model_name)
                raise RuntimeError("the task asks a model in a role of its own, such as a judge or a user, and there is none")
            about = {"role": self.model_name, "scoring": scoring()}
            return output_of(await conversation.ask(question(input, tools) | about))

    @modelapi(name="sandlot")
    class AgentModel(ModelAPI):
        async def generate(self, input, tools, tool_choice, config):
            if scoring():
                conversation.refused.append("")
                raise RuntimeError("the scorer asks a model, and there is none")
            return output_of(await conversation.ask(question(input, tools)))

    return AgentModel, RoleModel


def output_of(answer: dict):
    """A message of the other side as Inspect's models give it."""
    from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage
    from inspect_ai.tool import ToolCall

    calls = [
        ToolCall(
            id=call["id"],
            function=call["name"],
            arguments=call["arguments"],
            parse_error=call.get("malformed"),
            type="function",
        )
        for call in answer["calls"]
    ]
    message = ChatMessageAssistant(content=answer["text"], tool_calls=calls or None, source="generate")
    reasons = {"length": "max_tokens", "refusal": "content_filter"}
    output = ModelOutput.from_message(message, reasons.get(answer.get("ended", ""), "tool_calls" if calls else "stop"))
    output.usage = ModelUsage()  # without one, Inspect may want to count
    return output


def shown(message) -> dict:
    """A message of the conversation."""
    kinds = [] if isinstance(message.content, str) else [part.type for part in message.content]
    error = getattr(message, "error", None)
    calls = [
        {"id": call.id, "name": call.function, "arguments": call.arguments} for call in getattr(message, "tool_calls", None) or []
    ]
    return {
        "role": message.role,
        "text": message.text,
        "kinds": kinds,
        "call": getattr(message, "tool_call_id", None),
        "error": error.message if error else None,
        "calls": calls,
    }


def offered(tool) -> dict:
    """A tool."""
    schema = json.loads(tool.parameters.model_dump_json(exclude_none=True))
    return {"name": tool.name, "description": tool.description, "parameters": schema}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), {"source": sys.argv[3], "arguments": json.loads(sys.argv[4])})
