"""Runs a domain of tau-bench for Sandlot. It needs `pydantic`, and nothing of Sandlot.

Every line of standard input is a request, every line of standard output an answer: see `package_process.py`. Each rollout is a
child process with tau-bench's own `Env`: an agent can make a tool compute without end (`calculate` evaluates `9**9**9**9`), and
then only that rollout's process is killed. The reward is that of its own `calculate_reward`.

tau-bench asks a model to play the user. Here Sandlot plays the user, so its package for models (`litellm`) is replaced by a
module that has nothing in it.
"""

import importlib
import json
import os
import resource
import selectors
import signal
import sys
import time
import types

from request_loop import OUT, answer_line, write

CALL_S = 120.0
"""Maximum time for a request to a rollout, also on a machine that is busy with many."""
CPU_S = 30
"""Maximum computing time of a rollout."""
MAX_BYTES = 4 * 2**30
"""Maximum memory of a rollout's process."""
ENDED = "the process of this rollout has ended"
RESPOND = "respond"
CLASSES = {"retail": "MockRetailDomainEnv", "airline": "MockAirlineDomainEnv"}


class SilentUser:
    """The user inside tau-bench. The conversation takes place in Sandlot."""

    def reset(self, instruction=None):  # noqa: ARG002 - the shape of tau-bench's users
        return ""

    def step(self, content):  # noqa: ARG002
        return ""

    def get_total_cost(self):
        return 0.0


class Domain:
    """A domain with its tasks, loaded once; every rollout is a fork of this process."""

    def __init__(self, folder, domain, split):
        models = types.ModuleType("litellm")
        models.completion = None
        sys.modules["litellm"] = models
        sys.path.insert(0, folder)
        module = importlib.import_module(f"tau_bench.envs.{domain}")
        self.action = importlib.import_module("tau_bench.types").Action
        self.env = getattr(module, CLASSES[domain])(user_strategy="human", task_split=split, task_index=0)
        self.env.user = SilentUser()
        self.final = None
        self.num_said = 0

    def facts(self):
        """The tools, the policy and the tasks."""
        tasks = [json.loads(task.model_dump_json()) for task in self.env.tasks]
        return {"tools": self.env.tools_info, "wiki": self.env.wiki, "ending": list(self.env.terminate_tools), "tasks": tasks}

    def begin(self, index):
        """Begin the task."""
        self.env.reset(task_index=index)
        return {}

    def hear(self, said):
        """Take what the agent has said so far: `Env` looks for outputs in it, also when a tool ends the conversation."""
        for text in said[self.num_said :]:
            self.env.step(self.action(name=RESPOND, kwargs={"content": text}))
        self.num_said = len(said)

    def call(self, said, name, arguments):
        """One call of a tool, after the agent has said this."""
        self.hear(said)
        response = self.env.step(self.action(name=name, kwargs=arguments))
        if response.done:
            self.final = response
        return {"text": response.observation, "over": response.done}

    def finish(self, said):
        """The reward if the user ends the conversation now, after the agent has said this."""
        if self.final is not None:
            return self._result(self.final.info.reward_info)
        self.hear(said)
        return self._result(self.env.calculate_reward())

    def _result(self, found):
        outputs = getattr(found.info, "outputs", {})
        return {"reward": found.reward, "missing": [text for text, said in outputs.items() if not said]}

    def survey(self, index):
        """What tau-bench gives for doing nothing."""
        self.begin(index)
        return {"nothing": self.finish([""])["reward"]}


def answered(number, function, arguments):
    """The line that answers a request."""
    try:
        return answer_line(number, function(**arguments))
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises is the answer
        return answer_line(number, error)


def play(domain, asked, answers):
    """The child: answer the requests of one rollout."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    with os.fdopen(asked, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            number, do = request.pop("id"), request.pop("do")
            write(answers, answered(number, getattr(domain, do), request))
    os._exit(0)


class RolloutProcess:
    """The process of one rollout."""

    def __init__(self, domain, others):
        asked, self.to = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(0)
            for descriptor in (self.to, self.answers, OUT, *others):  # a pipe that stays open elsewhere does not end
                os.close(descriptor)
            try:
                play(domain, asked, answers)
            finally:
                os._exit(1)  # what follows is the parent's
        os.close(asked)
        os.close(answers)
        self.text = b""
        self.waiting = []
        """The numbers of the requests that wait."""
        self.late_at = None

    def ask(self, request):
        """Pass on a request; a rollout has one at a time."""
        self.waiting.append(request["id"])
        self.late_at = time.monotonic() + CALL_S
        write(self.to, json.dumps(request).encode() + b"\n")

    def close(self):
        """Kill the process."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.to)
        os.close(self.answers)


class DomainService:
    """The requests of Sandlot, passed on to the processes of rollouts."""

    def __init__(self):
        self.domain = None
        self.children = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)
        self.text = b""

    def take(self, request):
        """Answer a request, or pass it on."""
        number, do = request["id"], request["do"]
        name = request.pop("rollout", None)
        if do == "load":
            write(OUT, answered(number, self.load, {key: request[key] for key in ("folder", "domain", "split")}))
        elif do == "drop":
            self.forget(name)
            write(OUT, answered(number, dict, {}))
        elif do in {"begin", "survey"}:
            self.forget(name)
            others = [each for child in self.children.values() for each in (child.to, child.answers)]
            self.children[name] = RolloutProcess(self.domain, others)
            self.selector.register(self.children[name].answers, selectors.EVENT_READ, name)
            self.pass_on(name, request)
        elif name in self.children:
            self.pass_on(name, request)
        else:
            self.fail(number, ENDED)

    def pass_on(self, name, request):
        """Hand a request to the rollout's process. One that is busy (its last call was cancelled) or gone is ended."""
        child = self.children[name]
        if child.waiting:
            child.waiting.append(request["id"])
            self.forget(name, "the rollout was asked while another request was running; it has ended")
            return
        try:
            child.ask(request)
        except OSError:
            self.forget(name, ENDED)

    def fail(self, number, why):
        """Answer that a request failed."""
        write(OUT, json.dumps({"id": number, "failed": why}).encode() + b"\n")

    def load(self, folder, domain, split):
        """Load the domain, and say what it is."""
        self.domain = Domain(folder, domain, split)
        return self.domain.facts()

    def forget(self, name, why=""):
        """End a rollout; what it was asked fails."""
        child = self.children.pop(name, None)
        if child is None:
            return
        self.selector.unregister(child.answers)
        child.close()
        for number in child.waiting:
            self.fail(number, why or "the rollout was dropped")

    def read(self, name):
        """Pass on what a rollout's process answers."""
        child = self.children[name]
        data = os.read(child.answers, 1 << 16)
        if not data:
            self.forget(name, f"{ENDED}; it may compute for {CPU_S} s")
            return
        child.text += data
        if child.text.endswith(b"\n"):
            write(OUT, child.text)
            child.text, child.waiting, child.late_at = b"", [], None

    def serve(self):
        """Answer requests until standard input ends."""
        while True:
            late = [child.late_at for child in self.children.values() if child.waiting]
            ready = self.selector.select(max(0.0, min(late) - time.monotonic()) if late else None)
            for key, _ in ready:
                if key.data is not None:
                    if key.data in self.children:
                        self.read(key.data)
                    continue
                data = os.read(0, 1 << 16)
                if not data:
                    for name in list(self.children):
                        self.forget(name)
                    return
                *lines, self.text = (self.text + data).split(b"\n")
                for line in lines:
                    self.take(json.loads(line))
            now = time.monotonic()
            for name in [each for each, child in self.children.items() if child.waiting and child.late_at <= now]:
                self.forget(name, f"tau-bench did not answer within {CALL_S:g} s")


if __name__ == "__main__":
    DomainService().serve()
