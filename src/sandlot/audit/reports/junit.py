"""The JUnit XML report for build servers: one suite per layer, one case per probe or finding.

A grave finding is a failure, and a layer or probe that could not run is an error. What is waived or does not apply is skipped,
with the reason. Leads and minor findings pass, with their text in the output of the case.
"""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from sandlot.audit.finding import MANDATORY, Finding
from sandlot.audit.reports.wording import fix_of, reproduce_command, where_seen, witness_lines
from sandlot.audit.verdict import Audit, LayerReport, State
from sandlot.audit.waivers import Waiver
from sandlot.core.text import one_line

_MISSING = frozenset({State.COULD_NOT_RUN, State.NOT_REACHED})


def as_junit(audit: Audit) -> str:
    """The whole report."""
    suites = Element("testsuites", name=one_line(f"sandlot audit {audit.name}"), time=f"{audit.seconds:.3f}")
    for report in audit.layers:
        if report.layer in MANDATORY or report.state is not State.NOT_ASKED:
            suites.append(_suite(audit, report))
    for name in ("tests", "failures", "errors", "skipped"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _suite(audit: Audit, report: LayerReport) -> Element:
    suite = Element("testsuite", name=f"{report.layer}", time=f"{sum(probe.seconds for probe in report.probes):.3f}")
    inside = one_line(f"{audit.name}.{report.layer}")
    broken = any(probe.state in _MISSING for probe in report.probes)
    if not report.probes or (report.state in _MISSING and not broken):
        case = SubElement(suite, "testcase", name="the layer", classname=inside, time="0")
        kind = "error" if report.state in _MISSING else "skipped"
        SubElement(case, kind, message=one_line(report.why or report.state.value))
    for probe in report.probes:
        if not probe.findings:
            case = SubElement(suite, "testcase", name=probe.name, classname=inside, time=f"{probe.seconds:.3f}")
            if probe.state is not State.RAN:
                SubElement(case, "error" if probe.state in _MISSING else "skipped", message=one_line(probe.why))
    for finding in audit.findings:
        if finding.layer is report.layer:
            suite.append(_case(audit, finding, inside, None))
    for each in audit.waived:
        if each.finding.layer is report.layer:
            suite.append(_case(audit, each.finding, inside, each.waiver))
    suite.set("tests", str(len(suite)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"./testcase/{tag}"))))
    return suite


def _case(audit: Audit, finding: Finding, inside: str, waiver: Waiver | None) -> Element:
    case = Element("testcase", name=one_line(f"{finding.probe}: {finding.id}"), classname=inside, time="0")
    if waiver is not None:
        said = f"waived: {waiver.reason} ({waiver.owner}, until {waiver.expires})"
        SubElement(case, "skipped", message=one_line(said))
    elif finding.grave:
        SubElement(case, "failure", message=one_line(finding.title), type=finding.code).text = _text(audit, finding)
        return case
    SubElement(case, "system-out").text = _text(audit, finding)
    return case


def _text(audit: Audit, finding: Finding) -> str:
    place = where_seen(finding)
    lines = [f"{finding.code} ({finding.severity}, {finding.standing}): {finding.title}" + (f" ({place})" if place else "")]
    lines += [*witness_lines(finding), f"fix: {fix_of(finding)}", f"reproduce: {reproduce_command(audit, finding)}"]
    return "\n".join(one_line(line) for line in lines)
