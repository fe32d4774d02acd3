"""`/v1/chat/completions`: renders messages and tools, samples, and parses the completion into a message with calls.

The reply is parsed when it is complete, since a tool call is known only at its end; a stream sends keep-alive comments until
then. For exact tokens over several turns use `/v1/completions` with ids, since chat renders the history again in every request.
"""

from functools import partial
from uuid import uuid4

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from sandlot.core.ports.model import Sampled
from sandlot.core.tokens import unpacked_ids
from sandlot.core.trace import Usage
from sandlot.core.types import Json
from sandlot.model.wire.http import read_body
from sandlot.model.wire.openai import ChatRequest
from sandlot.model.wire.openai_server import chat_choice, choice_events, read_chat
from sandlot.model.wire.turn import TurnReply, TurnRequest, bad_field
from sandlot.serve.model.job import SamplingJob
from sandlot.serve.model.server import ModelServer, logprobs_of, sampling_of, server_of, session_of


async def chat_completions(request: Request) -> Response:
    """Handle one request."""
    server = server_of(request)
    wanted, asked = read_chat(await read_body(request, server.body_bytes))
    if wanted.top_logprobs:
        raise bad_field("top_logprobs", "is not supported; remove it")
    session = session_of(request, wanted)
    job = await to_thread.run_sync(_render, server, wanted, asked, session)  # a long history takes seconds
    return await job.respond(request)


def _render(server: ModelServer, wanted: ChatRequest, asked: TurnRequest, session: str) -> SamplingJob:
    model = server.model_named(wanted.model)
    sampling = sampling_of(wanted, wanted.max_completion_tokens or wanted.max_tokens)
    prompt = server.renderer.render(asked.messages, asked.tools)
    server.require_ids(prompt, "messages")
    return SamplingJob(
        server=server,
        model=model,
        wanted=wanted,
        prompts=[prompt],
        sampling=sampling,
        stop_ids=server.renderer.stop_ids,
        session=session,
        choice=partial(_choice, server, wanted),
        events=choice_events,
        kinds=("chat.completion", "chat.completion.chunk"),
        more={"prompt_token_ids": prompt} if wanted.return_token_ids else {},
    )


def _choice(server: ModelServer, wanted: ChatRequest, place: int, sampled: Sampled) -> Json:
    ids = unpacked_ids(sampled.ids)
    message = server.renderer.parse(ids, f"call_{uuid4().hex[:12]}_")
    stop = "calls" if message.calls and sampled.stop == "stop" else sampled.stop
    choice = chat_choice(TurnReply(message, stop, Usage()), place) | {"weight_versions": sampled.versions}
    if wanted.logprobs:
        values = zip(ids, logprobs_of(sampled), strict=True)
        choice["logprobs"] = {"content": [_token(server, token, logprob) for token, logprob in values]}
    if wanted.return_token_ids:
        choice["token_ids"] = ids
    return choice


def _token(server: ModelServer, token: int, logprob: float) -> Json:
    text = server.tokenizer.decode([token])
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
