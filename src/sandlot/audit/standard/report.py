"""The report of RFC 008: a result for each check id, and the verdict of a severity policy.

A check has no opinion on whether its failure matters; only the policy has. A check whose probes did not run is skipped with the
reason and never passes. Where the golden solution is missing, the standard wants a failure, not a skip.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.reports.wording import fix_of
from sandlot.audit.standard.checks import STANDARD_CHECKS, StandardCheck, StandardLevel
from sandlot.audit.standard.facts import StandardAnswer
from sandlot.audit.verdict import Audit, ProbeReport, State
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

REPORT_FORMAT = "1"
_SEVERITIES = ("fail", "warn", "advisory")
_MOST_EVIDENCE = 5
_UNSTABLE = "it depends on runtime.episode_determinism, which did not pass"


class CheckStatus(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 - a word of the standard
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class StandardResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check id."""

    check_id: str
    number: int | None
    level: StandardLevel
    lane: str
    status: CheckStatus
    severity: str
    """What the policy makes of a failure."""
    measured: Json = {}
    evidence: tuple[str, ...] = ()
    remediation: str = ""


class StandardPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failures block: a file of its own, so that a local run and an operator's reach the same verdict."""

    version: str = "v1"
    severities: dict[str, str] = {}
    """Severity by check id, where it differs from version 1."""

    def severity_of(self, check: StandardCheck) -> str:
        """`fail`, `warn` or `advisory`."""
        return self.severities.get(check.id, check.severity)


class StandardVerdict(StrEnum):
    """Of the whole report."""

    PASS = "pass"  # noqa: S105 - a word of the standard
    WARN = "warn"
    FAIL = "fail"

    @property
    def exit_code(self) -> int:
        """0 for `pass` and `warn`, 1 for `fail`."""
        return int(self is StandardVerdict.FAIL)


class StandardReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report, as the standard's JSON has it."""

    report_schema_version: str = REPORT_FORMAT
    target: str
    source_digest: str
    manifest: Json
    policy_version: str
    lane: str
    results: tuple[StandardResult, ...]
    verdict: StandardVerdict


def read_policy(path: Path | None) -> StandardPolicy:
    """A policy file (JSON); version 1 without one."""
    if path is None:
        return StandardPolicy()
    try:
        policy = msgspec.json.decode(path.read_bytes(), type=StandardPolicy)
    except OSError as error:
        raise ConfigError(f"policy `{path}` cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f'policy `{path}`: {error}; write {{"version": "v1-ours", "severities": {{"CHECK": "warn"}}}}'
        ) from error
    known = {check.id for check in STANDARD_CHECKS}
    for name, severity in policy.severities.items():
        if name not in known:
            raise ConfigError(f"policy `{path}` names `{name}`, which is no check id of RFC 008")
        if severity not in _SEVERITIES:
            raise ConfigError(f"policy `{path}`: severity `{severity}` of `{name}`; there are: {', '.join(_SEVERITIES)}")
    return policy


def standard_report(
    audit: Audit,
    answers: Mapping[str, StandardAnswer],
    *,
    manifest: Json,
    policy: StandardPolicy,
    level: StandardLevel = StandardLevel.SEMANTIC,
    operator: bool = False,
) -> StandardReport:
    """An audit and facts about its environment (`answers`, by check id) as a report.

    `operator` adds the check ids that the standard reserves for operators.
    """
    levels = list(StandardLevel)
    wanted = levels[: levels.index(level) + 1] + [StandardLevel.STATISTICAL] * operator
    checks = [check for check in STANDARD_CHECKS if check.level in wanted and (operator or check.lane == "local")]
    results = _with_dependencies([_result(check, audit, answers.get(check.id), policy) for check in checks])
    return StandardReport(
        target=audit.subject,
        source_digest=audit.fingerprint,
        manifest=manifest,
        policy_version=policy.version,
        lane="hub" if operator else "local",
        results=tuple(results),
        verdict=_verdict(results),
    )


def _with_dependencies(results: Sequence[StandardResult]) -> list[StandardResult]:
    """No golden solution: a failure, as nothing is verifiable. A world that is not deterministic: no semantic check counts."""
    by_id = {result.check_id: result for result in results}
    determinism = by_id.get("runtime.episode_determinism")
    unstable = determinism is not None and determinism.status in {CheckStatus.FAIL, CheckStatus.ERROR}
    return [_without_oracle(_if_stable(result, unstable=unstable)) for result in results]


def _if_stable(result: StandardResult, *, unstable: bool) -> StandardResult:
    if not unstable or result.level is not StandardLevel.SEMANTIC:
        return result
    return msgspec.structs.replace(result, status=CheckStatus.SKIP, evidence=(_UNSTABLE,), remediation="")


def _without_oracle(result: StandardResult) -> StandardResult:
    if result.check_id != "semantic.oracle_max" or result.status is not CheckStatus.SKIP or result.evidence == (_UNSTABLE,):
        return result
    fix = "write a golden solution (`@env.solution`)"
    return msgspec.structs.replace(result, status=CheckStatus.FAIL, remediation=fix)


def _verdict(results: Iterable[StandardResult]) -> StandardVerdict:
    broken = {result.severity for result in results if result.status in {CheckStatus.FAIL, CheckStatus.ERROR}}
    if "fail" in broken:
        return StandardVerdict.FAIL
    return StandardVerdict.WARN if "warn" in broken else StandardVerdict.PASS


def _result(check: StandardCheck, audit: Audit, answer: StandardAnswer | None, policy: StandardPolicy) -> StandardResult:
    status, evidence, remediation = _by_probes(check, audit) if answer is None else _by_fact(answer)
    return StandardResult(
        check_id=check.id,
        number=check.number,
        level=check.level,
        lane=check.lane,
        status=status,
        severity=policy.severity_of(check),
        measured=answer.measured if answer else {},
        evidence=evidence,
        remediation=remediation,
    )


_Outcome = tuple[CheckStatus, tuple[str, ...], str]


def _by_fact(answer: StandardAnswer) -> _Outcome:
    status = {True: CheckStatus.PASS, False: CheckStatus.FAIL, None: CheckStatus.SKIP}[answer.holds]
    return status, (answer.evidence,), answer.remediation if status is CheckStatus.FAIL else ""


def _by_probes(check: StandardCheck, audit: Audit) -> _Outcome:
    found = [finding for finding in audit.findings if _fails(check, finding)]
    if found:
        evidence = tuple(f"{finding.code}: {finding.title}" for finding in found[:_MOST_EVIDENCE])
        return CheckStatus.FAIL, evidence, fix_of(found[0])
    reports = [report for layer in audit.layers for report in layer.probes if report.name in check.probes]
    broken = next((report for report in reports if report.state in {State.COULD_NOT_RUN, State.NOT_REACHED}), None)
    if broken is not None:
        return CheckStatus.ERROR, (f"probe `{broken.name}` could not run: {broken.why}",), "repeat the audit"
    ran = [report for report in reports if report.state is State.RAN]
    if ran:
        return CheckStatus.PASS, (_ran(ran),), ""
    return CheckStatus.SKIP, (_why_not(check, audit, reports),), ""


def _fails(check: StandardCheck, finding: Finding) -> bool:
    confirmed = finding.standing is Confidence.CONFIRMED
    return confirmed and finding.probe in check.probes and finding.code.partition(".")[0] in check.codes


def _ran(reports: list[ProbeReport]) -> str:
    trials = sum(report.trials for report in reports)
    return f"{', '.join(f'`{report.name}`' for report in reports)} confirmed nothing in {trials:,} trials of their own"


def _why_not(check: StandardCheck, audit: Audit, reports: list[ProbeReport]) -> str:
    if reports:
        return reports[0].why or "its probes do not apply"
    missing = [layer for layer in audit.layers if layer.state in {State.COULD_NOT_RUN, State.NOT_REACHED} and layer.why]
    if check.probes and missing:
        return f"layer {missing[0].layer} could not run: {missing[0].why}"
    return "its probes were not asked for" if check.probes else "nothing here measures it"
