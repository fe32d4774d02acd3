"""What became of a trial of Harbor: its reward, or which side failed.

Harbor records an exception beside the reward, and its mean counts a trial without a reward as 0. Here a trial has a reward only
if the verifier gave one and what was raised, if anything, was the agent's own doing: it used its time or tokens, or it refused.
These are the trials whose reward Harbor calls valid. All others are failures, named by the side that broke.
"""

from dataclasses import dataclass

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.text import encodable, one_line
from sandlot.core.trace import Cancelled, Failed, Outcome, Scored
from sandlot.core.types import End, Side
from sandlot.interop.gyms.source import ScoreRange
from sandlot.interop.harbor.records import HarborException, HarborTrial

_MESSAGE_CHARS = 4_000
_EVIDENCE_CHARS = 2_000
_ENDS = {
    "AgentTimeoutError": End.TIME_LIMIT,
    "ContextWindowExceededError": End.TOKEN_LIMIT,
    "OutputTokenExceededError": End.TOKEN_LIMIT,
    "ContextLengthExceededError": End.TOKEN_LIMIT,
    "OutputLengthExceededError": End.TOKEN_LIMIT,
    "AgentSafetyRefusalError": End.REFUSED,
    "ContentPolicyViolationError": End.REFUSED,
}
"""What the agent did itself: it ends the rollout, and the reward counts."""
_FAILURES: dict[tuple[Side, str], tuple[str, ...]] = {
    (Side.SANDBOX, "timeout"): ("EnvironmentStartTimeoutError", "AgentSetupTimeoutError"),
    (Side.SANDBOX, "start"): ("SandboxBuildFailedError", "HealthcheckError"),
    (Side.SANDBOX, "memory"): ("SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError"),
    (Side.SANDBOX, "crash"): (
        "SSHAccessError",
        "GKEExecStreamClosedError",
        "GKEPodNotFoundError",
        "RuntimeRequestError",
        "AddTestsDirError",
        "DownloadVerifierDirError",
    ),
    (Side.MODEL, "rate_limit"): ("ApiRateLimitError", "ApiUsageLimitError", "RateLimitError"),
    (Side.MODEL, "timeout"): ("ApiResponseStalledError", "Timeout"),
    (Side.MODEL, "connect"): ("NetworkConnectionError", "ApiConnectionError", "APIConnectionError", "ApiConnectionClosedError"),
    (Side.MODEL, "auth"): ("AgentAuthenticationError", "AuthenticationError", "PermissionDeniedError"),
    (Side.MODEL, "not_found"): ("ModelNotFoundError", "ApiProviderResourceNotFoundError", "NotFoundError"),
    (Side.MODEL, "bad_request"): ("BadRequestError", "UnprocessableEntityError", "UnsupportedParamsError"),
    (Side.MODEL, "spend"): ("BudgetExceededError",),
    (Side.MODEL, "server"): (
        "ApiError",
        "APIError",
        "ApiInternalServerError",
        "InternalServerError",
        "ApiOverloadedError",
        "ServiceUnavailableError",
        "UnknownApiError",
        "APIResponseValidationError",
    ),
    (Side.GRADER, "timeout"): ("VerifierTimeoutError",),
    (Side.GRADER, "no_score"): ("RewardFileNotFoundError", "RewardFileEmptyError"),
    (Side.GRADER, "bad_value"): ("VerifierOutputParseError",),
    (Side.HARNESS, "agent"): ("NonZeroAgentExitCodeError",),
}
_SIDES = {name: failure for failure, names in _FAILURES.items() for name in names}


@dataclass(frozen=True, slots=True)
class RewardChoice:
    """Which reward counts, and on which scale."""

    name: str | None = None
    """None for `reward`, or the only one."""
    scale: ScoreRange | None = None


def raised(trial: HarborTrial) -> tuple[HarborException, ...]:
    """What a trial and its steps raised, in order."""
    steps = [step.exception_info for step in trial.step_results or ()]
    return tuple(each for each in (trial.exception_info, *steps) if each is not None)


def broken_by(trial: HarborTrial) -> HarborException | None:
    """The first thing that a trial raised and that was not its agent's own doing."""
    return next((each for each in raised(trial) if each.exception_type not in _ENDS), None)


def end_of(trial: HarborTrial) -> End:
    """Why the agent of a trial with a reward stopped."""
    return next((_ENDS[each.exception_type] for each in raised(trial)), End.DONE)


def outcome_of(trial: HarborTrial, choice: RewardChoice, verifier_said: str) -> Outcome:
    """The reward of a trial, or its failure; `ConfigError` if the rewards do not say which one counts, or on which scale."""
    broken = broken_by(trial)
    if broken is not None:
        return _failure(broken)
    if ungraded := _ungraded_step(trial):
        return Failed(Side.GRADER, "no_score", ungraded)
    rewards = (trial.verifier_result.rewards if trial.verifier_result else None) or {}
    if not rewards:
        said = "; ".join(_told(each) for each in raised(trial))
        return Failed(Side.GRADER, "no_score", f"the verifier gave no reward{f' ({said})' if said else ''}"[:_MESSAGE_CHARS])
    name = _chosen(rewards, choice.name)
    value = rewards[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = "no_score" if value is None else "bad_value"
        return Failed(
            Side.GRADER, kind, f"the reward `{one_line(name, 100)}` is {one_line(repr(value), 100)}, which is no number"
        )
    return Scored(_score(name, float(min(max(value, -1e300), 1e300)), choice.scale, verifier_said))


def _ungraded_step(trial: HarborTrial) -> str | None:
    """What a step raised that has no reward: those of the other steps are not the trial's."""
    for step in trial.step_results or ():
        if step.exception_info is not None and not (step.verifier_result and step.verifier_result.rewards):
            return f"the step `{one_line(step.step_name, 100)}` has no reward ({_told(step.exception_info)})"[:_MESSAGE_CHARS]
    return None


def _failure(exception: HarborException) -> Outcome:
    if exception.exception_type == "CancelledError":
        return Cancelled("the trial was cancelled in Harbor")
    side, kind = _SIDES.get(exception.exception_type, (Side.HARNESS, "crash"))
    return Failed(side, kind, _told(exception))


def _told(exception: HarborException) -> str:
    return encodable(f"{exception.exception_type[:100]}: {exception.exception_message}")[:_MESSAGE_CHARS]


def _chosen(rewards: dict[str, object], name: str | None) -> str:
    shown = ", ".join(one_line(each, 100) for each in list(rewards)[:20])
    if name is not None and name not in rewards:
        raise ConfigError(f"there is no reward `{name}`; there are: {shown}")
    if name is None and "reward" not in rewards and len(rewards) > 1:
        raise ConfigError(f"there are several rewards and none is called `reward`: choose one with `?reward=NAME`: {shown}")
    return name or ("reward" if "reward" in rewards else next(iter(rewards)))


def _score(name: str, value: float, scale: ScoreRange | None, verifier_said: str) -> RubricScore:
    if scale is not None and not scale.low <= value <= scale.high:
        raise ConfigError(
            f"the reward `{one_line(name, 100)}` is {value:g}, which is not from {scale.low:g} to {scale.high:g}: "
            "import it with another `?score=LOW..HIGH`"
        )
    if scale is not None:
        value = scale.share(value)
    elif not 0.0 <= value <= 1.0:
        raise ConfigError(
            f"the reward `{one_line(name, 100)}` is {value:g}, which is no share of full marks: say what is worth nothing "
            "and what is full marks, `?score=LOW..HIGH`"
        )
    verdict = CheckVerdict.MET if value >= 1.0 else CheckVerdict.PARTLY if value > 0.0 else CheckVerdict.NOT_MET
    check = CheckResult(
        id=one_line(name, 100) or "reward",
        verdict=verdict,
        value=value,
        points=value,
        worth=1.0,
        evidence=encodable(verifier_said)[-_EVIDENCE_CHARS:],
    )
    return RubricScore(points=value, possible=1.0, value=value, checks=(check,))
