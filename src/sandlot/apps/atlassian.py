"""What the tickets app and the wiki share: their tools come from one server, which writes results and errors in one way."""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.issues import ArgumentIssue
from sandlot.apps.recorded import RecordedTool
from sandlot.core.errors import ToolError

_TYPES = {
    "string": ("string_type", "string"),
    "integer": ("int_type", "integer"),
    "boolean": ("bool_type", "boolean"),
    "number": ("float_type", "number"),
    "array": ("list_type", "list"),
    "object": ("dict_type", "dictionary"),
}


def pydantic_text(tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    """Wrong arguments as pydantic reports them, with which the Atlassian server checks its calls."""
    lines = [f"{len(issues)} validation error{'s' if len(issues) > 1 else ''} for call[{short_name(tool.name)}]"]
    for issue in issues:
        lines += [".".join(map(str, issue.path)), f"  {_pydantic_issue(issue)}"]
    return "\n".join(lines)


def _pydantic_issue(issue: ArgumentIssue) -> str:
    if issue.missing:
        return "Missing required argument [type=missing_argument]"
    match issue.code:
        case "enum":
            return f"Input should be {issue.expected.replace(' | ', ' or ')} [type=literal_error, input_value={issue.received!r}]"
        case "pattern":
            return (
                f"String should match pattern '{issue.expected}' [type=string_pattern_mismatch, input_value={issue.received!r}]"
            )
        case "bound":
            return f"Input should be {issue.expected} [type=value_error, input_type={issue.received}]"
        case _:
            kind, word = _TYPES.get(issue.expected, ("value_error", issue.expected))
            return f"Input should be a valid {word} [type={kind}, input_type={issue.received}]"


def short_name(tool: str) -> str:
    """A tool's name inside the server: `get_issue` for `jira_get_issue`."""
    return tool.partition("_")[2]


_Function = Callable[..., Any]


def atlassian_tools(app: App, prefix: str) -> Callable[[_Function], _Function]:
    """A decorator for the tools of one product: names get its prefix, results become indented JSON, errors name the tool."""

    def mark(function: _Function) -> _Function:
        name = function.__name__.lstrip("_")

        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> str:
            try:
                result = function(*arguments, **keywords)
            except ToolError as error:
                raise ToolError(f"Error calling tool '{name}': {error}") from error
            return json_text(result)

        app.tool(name=f"{prefix}_{name}")(called)
        return function

    return mark


def account_of(email: str) -> str:
    """The account id of a person, the same in tickets and wiki."""
    return f"712020:{hashlib.sha256(email.lower().encode()).hexdigest()[:24]}"


def json_text(value: Any) -> str:
    """Plain data as the server prints it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def read_object(text: str | None, what: str = "additional_fields") -> dict[str, Any]:
    """An argument that holds a JSON object as text; `ToolError` if it is none."""
    if text is None:
        return {}
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{what} is not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ToolError(f"Parsed {what} is not a JSON object (dict).")
    return parsed  # pyright: ignore[reportUnknownVariableType] - from json
