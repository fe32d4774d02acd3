"""Runs an environment of the package `verifiers` for Sandlot, in a Python that has that package. It needs nothing of Sandlot.

Every line of standard input is a request, every line of standard output an answer: see `package_process.py`. A rollout is the
package's own: `rollout` of the environment runs as always, with a client that passes every request for a model's message to
Sandlot and waits for the message. Its own rubric scores the state that the rollout leaves.

The package gives 0 where a reward function raises, or a verification runs out of time. Here that is a failure with its reason.
"""

import asyncio
import contextvars
import importlib.metadata
import json
import logging
import re
import sys
import time

from request_loop import answer_requests

FAILURES = contextvars.ContextVar("failures", default=None)
"""What went wrong while the current rollout is scored."""
SWALLOWED = re.compile(r"time ?out|timed out|time limit|verification failed", re.IGNORECASE)
"""What a rubric logs when it gives 0 for something that was not verified."""
GOLDEN_TURNS = 8


class RubricFailures(logging.Handler):
    """Collects what rubrics log as an error, or as a verification that did not end."""

    def emit(self, record):
        failures = FAILURES.get()
        said = record.getMessage()
        if failures is not None and (record.levelno >= logging.ERROR or SWALLOWED.search(said)):
            failures.append(said)


def rubrics_of(env):
    """All rubrics of an environment, of groups of rubrics and groups of environments too."""
    found, left = [], [env.rubric, *(inner.rubric for inner in getattr(env, "envs", []))]
    while left:
        rubric = left.pop()
        found.append(rubric)
        left += getattr(rubric, "rubrics", [])
    return found


def plain(value):
    """A message or a part of one as JSON."""
    dumped = value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
    return json.loads(json.dumps(dumped))


def text_of(content):
    """The text of a message; an error if it has anything else."""
    if isinstance(content, str) or content is None:
        return content or ""
    parts = [part if isinstance(part, dict) else part.model_dump() for part in content]
    other = [part.get("type") for part in parts if part.get("type") != "text"]
    if other:
        raise ValueError(f"a message has a part of type `{other[0]}`; only text can be passed on")
    return "".join(part["text"] for part in parts)


def shown(message):
    """A message as Sandlot gets it."""
    return {
        "role": message.role,
        "text": text_of(message.content),
        "call": getattr(message, "tool_call_id", None) or "",
        "calls": len(getattr(message, "tool_calls", None) or ()),
    }


class Rollout:
    """One rollout of the environment, moved on by the messages that Sandlot sends."""

    def __init__(self, env, row):
        self.env = env
        self.asked = asyncio.Queue()
        self.moves = asyncio.Queue()
        self.prompt = []
        self.state = None
        self.task = asyncio.get_running_loop().create_task(self._play(row))
        self.task.add_done_callback(lambda _: self.asked.put_nowait(None))

    async def _play(self, row):
        self.state = await self.env.rollout(row, CLIENT(self), "sandlot", {})

    async def answer(self, prompt, tools):
        """What the client returns for the messages so far: the next message of Sandlot's agent."""
        self.asked.put_nowait((prompt, tools or []))
        return await self.moves.get()

    async def opening(self):
        """The first messages and the tools."""
        asked = await self.asked.get()
        if asked is None:
            await self._require_no_error()
            raise ValueError("the rollout is over before the model is asked")
        self.prompt, tools = asked
        return {"messages": [shown(message) for message in self.prompt], "tools": [plain(tool) for tool in tools]}

    async def move(self, message):
        """Send a message of the agent; the messages that follow, until the next one is asked for or the rollout is over."""
        self.moves.put_nowait(message)
        asked = await self.asked.get()
        if asked is None:
            await self._require_no_error()
            last = self.state.get("final_env_response") or []
            return {"messages": [shown(each) for each in NORMALIZE(last, field_name="final_env_response")], "over": True}
        before, self.prompt = self.prompt, asked[0]
        kept = len(before) + 1
        if [plain(each) for each in before] != [plain(each) for each in self.prompt[: len(before)]]:
            raise ValueError("the environment rewrites earlier messages of the conversation, which cannot be passed on")
        return {"messages": [shown(each) for each in self.prompt[kept:]], "over": False}

    async def finish(self):
        """End the rollout if it goes on, as one whose context is full, and score it."""
        if not self.task.done():
            self.moves.put_nowait(None)
            await asyncio.wait([self.task])
        await self._require_no_error()
        failures = []
        FAILURES.set(failures)
        await self.env.rubric.score_rollout(self.state)
        await self.env.rubric.cleanup(self.state)
        if failures:
            raise ValueError("a reward function failed, which verifiers scores 0: " + "; ".join(failures))
        metrics = {name: float(value) for name, value in (self.state["metrics"] or {}).items()}
        return {"reward": float(self.state["reward"]), "metrics": metrics, "stop": str(self.state.get("stop_condition") or "")}

    async def _require_no_error(self):
        if self.task.cancelled() or self.task.exception() is not None:
            error = self.task.exception() if not self.task.cancelled() else "cancelled"
            raise ValueError(f"the environment's rollout failed: {type(error).__name__}: {error}")
        if self.state.get("error") is not None:
            error = self.state["error"]
            cause = error.__cause__ or error
            raise ValueError(f"the environment's rollout ended with {type(error).__name__}: {cause}")
        if self.state.get("timed_out"):
            raise ValueError("the environment's own time limit (timeout_seconds) ended the rollout")

    async def drop(self):
        """Cancel it."""
        self.task.cancel()
        await asyncio.wait([self.task])


class Service:
    """The requests of Sandlot."""

    def __init__(self):
        self.env = None
        self.rollouts = {}
        self.golden_form = 0

    async def load(self, name, path, arguments):
        """Load the environment, and say what it is."""
        if path:
            sys.path.insert(0, path)
        self.env = env = VF.load_environment(name, **arguments)
        if not hasattr(env, "rollout") or not hasattr(env, "rubric"):
            raise TypeError(f"`load_environment` returned a {type(env).__name__}, which has no `rollout` and `rubric`")
        if not isinstance(env, (VF.MultiTurnEnv, VF.EnvGroup)):
            raise TypeError(f"it is a {type(env).__name__}; only MultiTurnEnv, its subclasses and groups of them can be played")
        for rubric in rubrics_of(env):
            rubric.logger.addHandler(RubricFailures())
            if "MathRubric" in rubric.logger.name:
                rubric.logger.setLevel(logging.DEBUG)  # it says only there that a verification took too long
        groups = [rubric for rubric in rubrics_of(env) if rubric.has_group_rewards]
        weights = {}
        for rubric in rubrics_of(env):
            for func, weight in zip(rubric.funcs, rubric.weights, strict=True):
                weights[getattr(func, "__name__", repr(func))] = float(weight)
        return {
            "version": importlib.metadata.version("verifiers"),
            "environment": type(env).__name__,
            "weights": weights,
            "alike": len({json.dumps(bounds_of(inner)) for inner in getattr(env, "envs", [env])}) == 1,
            "bounds": bounds_of(getattr(env, "envs", [env])[0]),
            "scores_groups": bool(groups),
            "scores": bool(getattr(env, "score_rollouts", True)),
            "max_turns": max(getattr(inner, "max_turns", -1) for inner in getattr(env, "envs", [env])),
        }

    async def rows(self, split, limit):
        """The rows of one of its data sets, as JSON; a row that has no JSON form is null, with the reason."""
        dataset = self.env.build_dataset() if split == "train" else self.env.build_eval_dataset()
        if dataset is None:
            return {"rows": None, "reasons": []}
        rows, reasons = [], []
        for index in range(len(dataset) if limit is None else min(limit, len(dataset))):
            try:
                rows.append(json.loads(json.dumps(dataset[index])))
                reasons.append("")
            except (TypeError, ValueError) as error:
                rows.append(None)
                reasons.append(f"its row has no JSON form: {error}")
        return {"rows": rows, "reasons": reasons}

    async def survey(self, row, full):
        """The opening of a row's rollout, and an answer of which the rubric thinks most, if it reaches `full`."""
        rollout = Rollout(self.env, row)
        opening = await rollout.opening()
        await rollout.drop()
        return {"opening": opening, "golden": await self._golden(row, full)}

    async def _golden(self, row, full):
        answer = row.get("answer")
        if not isinstance(answer, str) or not answer:
            return None
        forms = self._forms(answer)
        order = [self.golden_form, *(each for each in range(len(forms)) if each != self.golden_form)]
        for each in [each for each in order if each < len(forms)]:
            rollout = Rollout(self.env, row)
            try:
                await rollout.opening()
                over = False
                for _ in range(GOLDEN_TURNS):
                    over = over or (await rollout.move({"text": forms[each], "calls": []}))["over"]
                scored = await rollout.finish()
            except Exception:  # noqa: BLE001 - whatever it raises, it is no golden answer
                await rollout.drop()
                continue
            if scored["reward"] >= full - 1e-9:
                self.golden_form = each
                return forms[each]
        return None

    def _forms(self, answer):
        """Ways to write an answer: as it is, boxed, in the tags of the environment's parser."""
        parser = getattr(self.env, "parser", None)
        forms = [answer, f"\\boxed{{{answer}}}", f"<answer>\n{answer}\n</answer>"]
        if isinstance(parser, VF.XMLParser):
            forms.append(parser.format(**dict.fromkeys(parser.get_fields(), answer)))
        return forms

    async def begin(self, rollout, row):
        """Begin a rollout."""
        self.rollouts[rollout] = Rollout(self.env, row)
        return await self.rollouts[rollout].opening()

    async def move(self, rollout, message):
        """A message of the agent."""
        return await self.rollouts[rollout].move(message)

    async def finish(self, rollout):
        """The end of a rollout: its score."""
        return await self.rollouts[rollout].finish()

    async def drop(self, rollout):
        """Forget a rollout, and cancel it if it goes on."""
        begun = self.rollouts.pop(rollout, None)
        if begun is not None:
            await begun.drop()
        return {}


def bounds_of(env):
    """The lowest and the highest reward, if every reward function gives 0 to 1."""
    weights = [weight for rubric in rubrics_of(env) for weight in rubric.weights]
    return [sum(min(0.0, float(each)) for each in weights), sum(max(0.0, float(each)) for each in weights)]


def thinks_inline(env):
    """True if its parser looks for thoughts between `<think>` tags in the text. Sandlot keeps them apart from the text."""
    parser = getattr(env, "parser", None)
    return isinstance(parser, VF.ThinkParser) or (isinstance(parser, VF.XMLParser) and "think" in parser.get_fields())


def make_client():
    """A client of the package that asks Sandlot."""

    class SandlotClient(VF.Client):
        """Passes on each request for a message, and waits for it."""

        def __init__(self, rollout):
            super().__init__(None)
            self.rollout = rollout

        async def get_response(self, prompt, model, sampling_args, tools=None, **_):  # noqa: ARG002 - the client's
            message = await self.rollout.answer(list(prompt), tools)
            if message is None:
                raise VF.OverlongPromptError("Sandlot ended the rollout")
            calls = [TYPES.ToolCall(id=each["id"], name=each["name"], arguments=each["arguments"]) for each in message["calls"]]
            thought = message.get("reasoning", "")
            inline = thought and thinks_inline(self.rollout.env)
            response = TYPES.ResponseMessage(
                content=f"<think>\n{thought}\n</think>\n{message['text']}" if inline else message["text"],
                reasoning_content=None if inline else thought or None,
                tool_calls=calls or None,
                finish_reason="tool_calls" if calls else "stop",
                is_truncated=False,
            )
            return TYPES.Response(id="sandlot", created=int(time.time()), model=model, usage=None, message=response)

        def setup_client(self, config):  # noqa: ARG002 - the client's
            return None

        async def to_native_tool(self, tool):
            return tool

        async def to_native_prompt(self, messages):
            return messages, {}

        async def get_native_response(self, prompt, model, sampling_args, tools=None, **kwargs):
            raise NotImplementedError

        async def raise_from_native_response(self, response):
            pass

        async def from_native_response(self, response):
            return response

        async def close(self):
            pass

    return SandlotClient


if __name__ == "__main__":
    import verifiers as VF  # noqa: N812 - constants of this program
    from verifiers import types as TYPES  # noqa: N812
    from verifiers.utils.message_utils import maybe_normalize_messages as NORMALIZE  # noqa: N812

    CLIENT = make_client()
    asyncio.run(answer_requests(Service()))
