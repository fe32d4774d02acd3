"""The parts of Harbor's results and trajectories (ATIF) that are read here. Everything else in them is skipped."""

from typing import Any

import msgspec

from sandlot.core.types import Json

ATIF_VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that are not named are skipped."""


class AtifSource(_Record, frozen=True, kw_only=True):
    """Where an image or a sound is."""

    path: str


class AtifContent(_Record, frozen=True, kw_only=True):
    """One part of a message or of a result: text, an image or audio."""

    type: str
    text: str | None = None
    source: AtifSource | None = None


AtifText = str | list[AtifContent] | None


class AtifCall(_Record, frozen=True, kw_only=True):
    """A tool call of a step."""

    tool_call_id: str
    function_name: str
    arguments: Json = {}


class AtifResult(_Record, frozen=True, kw_only=True):
    """What came back: the result of a call, or of something that is no call."""

    source_call_id: str | None = None
    content: AtifText = None
    subagent_trajectory_ref: list[Any] | None = None


class AtifObservation(_Record, frozen=True, kw_only=True):
    """What followed a step."""

    results: list[AtifResult] = []


class AtifMetrics(_Record, frozen=True, kw_only=True):
    """The tokens of a step."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None
    """None for one that is no number in JSON, such as -Infinity."""


class AtifStep(_Record, frozen=True, kw_only=True):
    """One step: a message of the system, the user or the agent, with its calls and what followed them."""

    source: str
    message: AtifText = None
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[AtifCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None


class AtifFunction(_Record, frozen=True, kw_only=True):
    """A tool that the agent had."""

    name: str
    description: str | None = None
    parameters: Json | None = None


class AtifTool(_Record, frozen=True, kw_only=True):
    """A definition of a tool, as OpenAI's functions are defined."""

    function: AtifFunction | None = None


class AtifAgent(_Record, frozen=True, kw_only=True):
    """Who acted."""

    name: str
    version: str = ""
    model_name: str | None = None
    tool_definitions: list[AtifTool] | None = None


class AtifTrajectory(_Record, frozen=True, kw_only=True):
    """A file `trajectory.json`."""

    schema_version: str
    agent: AtifAgent
    steps: list[AtifStep]
    session_id: str | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: list[msgspec.Raw] | None = None


class HarborModel(_Record, frozen=True, kw_only=True):
    """The model of a trial."""

    name: str
    provider: str | None = None


class HarborAgent(_Record, frozen=True, kw_only=True):
    """The agent of a trial."""

    name: str
    version: str = ""
    model_info: HarborModel | None = None

    @property
    def model(self) -> str:
        """The model's name with its provider; empty for an agent without a model."""
        if self.model_info is None:
            return ""
        return f"{self.model_info.provider}/{self.model_info.name}" if self.model_info.provider else self.model_info.name


class HarborException(_Record, frozen=True, kw_only=True):
    """What a trial raised."""

    exception_type: str
    exception_message: str = ""


class HarborRewards(_Record, frozen=True, kw_only=True):
    """What the verifier gave: numbers by name. A value that is no number in JSON, such as NaN, is None."""

    rewards: dict[str, Any] | None = None


class HarborTiming(_Record, frozen=True, kw_only=True):
    """When a phase of a trial began and ended."""

    started_at: str | None = None
    finished_at: str | None = None


class HarborUse(_Record, frozen=True, kw_only=True):
    """The tokens of a trial, as its agent counted them."""

    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None


class HarborStep(_Record, frozen=True, kw_only=True):
    """One step of a task that has several, each with its own agent run and verifier."""

    step_name: str
    exception_info: HarborException | None = None
    verifier_result: HarborRewards | None = None


class HarborTrialConfig(_Record, frozen=True, kw_only=True):
    """How a trial was run."""

    timeout_multiplier: Any = None
    agent_timeout_multiplier: Any = None
    verifier_timeout_multiplier: Any = None
    agent: Json = {}


class HarborTrial(_Record, frozen=True, kw_only=True):
    """A trial's `result.json`."""

    task_name: str
    trial_name: str
    agent_info: HarborAgent
    task_checksum: str = ""
    source: str | None = None
    config: HarborTrialConfig = HarborTrialConfig()
    agent_result: HarborUse | None = None
    verifier_result: HarborRewards | None = None
    exception_info: HarborException | None = None
    started_at: str | None = None
    finished_at: str | None = None
    environment_setup: HarborTiming | None = None
    agent_setup: HarborTiming | None = None
    agent_execution: HarborTiming | None = None
    verifier: HarborTiming | None = None
    step_results: list[HarborStep] | None = None


class HarborJobStats(_Record, frozen=True, kw_only=True):
    """What a job counted."""

    n_retries: int = 0


class HarborJob(_Record, frozen=True, kw_only=True):
    """A job's `result.json`."""

    n_total_trials: int
    started_at: str | None = None
    finished_at: str | None = None
    stats: HarborJobStats = HarborJobStats()
