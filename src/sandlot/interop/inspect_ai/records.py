"""The parts of Inspect's logs that are read here. Everything else in them is skipped."""

from typing import Any

import msgspec

from sandlot.core.types import Json

LOG_VERSION = 2


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that are not named are skipped."""


class LogContent(_Record, frozen=True, kw_only=True):
    """One part of a message: text, reasoning, an image, or something else."""

    type: str
    text: str = ""
    reasoning: str = ""
    image: str = ""


class LogCall(_Record, frozen=True, kw_only=True):
    """A tool call of a message."""

    id: str
    function: str
    arguments: Json = {}
    parse_error: str | None = None


class LogCallError(_Record, frozen=True, kw_only=True):
    """Why a tool call failed."""

    message: str = ""


class LogMessage(_Record, frozen=True, kw_only=True):
    """One message of a sample."""

    role: str
    content: str | list[LogContent] = ""
    id: str | None = None
    source: str | None = None
    tool_calls: list[LogCall] | None = None
    tool_call_id: str | None = None
    error: LogCallError | None = None


class LogUsage(_Record, frozen=True, kw_only=True):
    """The tokens of a model call."""

    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_cache_read: int | None = None
    total_cost: float | None = None


class LogChoice(_Record, frozen=True, kw_only=True):
    """An answer of a model, and why it ended."""

    message: LogMessage
    stop_reason: str = "unknown"


class LogOutput(_Record, frozen=True, kw_only=True):
    """The result of a model call."""

    model: str = ""
    choices: list[LogChoice] = []
    completion: str = ""
    usage: LogUsage | None = None


class LogTool(_Record, frozen=True, kw_only=True):
    """A tool that a model was offered."""

    name: str
    description: str = ""
    parameters: Json = {}


class LogEvent(_Record, frozen=True, kw_only=True):
    """The fields that all events have, or may have."""

    event: str
    type: Any = None
    timestamp: str | None = None
    working_time: float | None = None


class LogModelEvent(_Record, frozen=True, kw_only=True):
    """A model call."""

    output: LogOutput = LogOutput()
    error: Any = None
    tools: list[LogTool] = []
    timestamp: str | None = None
    working_time: float | None = None


class LogScore(_Record, frozen=True, kw_only=True):
    """What one scorer gave a sample. A value that is not a number in JSON, such as NaN, is None."""

    value: Any = None
    answer: str | None = None
    explanation: str | None = None


class LogError(_Record, frozen=True, kw_only=True):
    """An error that ended a sample or an attempt."""

    message: str = ""


class LogLimit(_Record, frozen=True, kw_only=True):
    """A limit that a sample reached."""

    type: str


class LogSample(_Record, frozen=True, kw_only=True):
    """One sample in one epoch."""

    id: int | str
    epoch: int
    target: str | list[str] = ""
    messages: list[LogMessage] = []
    output: LogOutput = LogOutput()
    scores: dict[str, LogScore] | None = None
    metadata: Json = {}
    store: Json = {}
    events: list[msgspec.Raw] = []
    started_at: str | None = None
    total_time: float | None = None
    error: LogError | None = None
    error_retries: list[LogError] | None = None
    attachments: dict[str, str] = {}
    limit: LogLimit | None = None
    invalidation: Any = None


class LogDataset(_Record, frozen=True, kw_only=True):
    """The samples that the log is about."""

    name: str | None = None
    samples: int | None = None
    sample_ids: list[int | str] | None = None


class LogSpec(_Record, frozen=True, kw_only=True):
    """What was run."""

    task: str
    created: str = ""
    task_version: int | str = 0
    task_args: Json = {}
    dataset: LogDataset = LogDataset()
    model: str = ""
    solver: str | None = None
    config: Json = {}
    model_generate_config: Json = {}
    packages: dict[str, str] = {}


class LogStats(_Record, frozen=True, kw_only=True):
    """When the eval began and ended."""

    started_at: str = ""
    completed_at: str = ""


class LogHeader(_Record, frozen=True, kw_only=True):
    """A log without its samples."""

    version: int
    status: str = "started"
    eval: LogSpec
    plan: Json = {}
    stats: LogStats = LogStats()


class WholeLog(LogHeader, frozen=True, kw_only=True):
    """A `.json` log."""

    samples: list[LogSample] | None = None
