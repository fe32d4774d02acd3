"""JQL, the query language of Jira: a query becomes SQL over the tables of the tickets app.

A recursive descent over the tokens; every value is a parameter of the statement, never part of its text. What is not supported is
refused by name (`WAS`, `CHANGED`, history functions), with what is: an agent can then write another query.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sandlot.apps.moments import named_moment, parse_moment
from sandlot.apps.query import QueryToken, split_query
from sandlot.apps.words import match_expression

_MAX_LENGTH = 10_000
_MAX_DEPTH = 40
_MAX_DIGITS = 15
"""Digits of an issue's number."""
_SIGNS = {"=", "!=", "~", "!~", "<", ">", "<=", ">="}
_KEYWORDS = {"and", "or", "not", "in", "is", "was", "changed", "order", "empty", "null"}


class JqlError(ValueError):
    """The query is wrong; the text is worded as Jira's."""


@dataclass(frozen=True, slots=True)
class JqlQuery:
    """A query as SQL: a condition and an order over `issue i`, with the parameters of both."""

    where: str
    order: str
    parameters: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a field is compared."""

    name: str
    column: str
    how: str  # plain, many, text, date, number
    order: str = ""


_PRIORITIES = "(SELECT p.rank FROM priority p WHERE p.name = i.priority)"
_STATUS_CATEGORY = "(SELECT s.category FROM status s WHERE s.name = i.status)"
_FIELDS: dict[str, _Kind] = {
    "project": _Kind("project", "i.project", "plain"),
    "key": _Kind("key", "i.key", "plain", "i.project, i.number"),
    "summary": _Kind("summary", "summary", "text", "i.summary"),
    "description": _Kind("description", "description", "text"),
    "comment": _Kind("comment", "comments", "text"),
    "text": _Kind("text", "", "text"),
    "status": _Kind("status", "i.status", "plain"),
    "statuscategory": _Kind("statusCategory", _STATUS_CATEGORY, "plain"),
    "issuetype": _Kind("issuetype", "i.type", "plain"),
    "priority": _Kind("priority", "i.priority", "plain", _PRIORITIES),
    "resolution": _Kind("resolution", "i.resolution", "plain"),
    "assignee": _Kind("assignee", "i.assignee", "person"),
    "reporter": _Kind("reporter", "i.reporter", "person"),
    "creator": _Kind("creator", "i.reporter", "person"),
    "watcher": _Kind("watcher", "SELECT w.account_id FROM watcher w WHERE w.issue = i.key", "people"),
    "parent": _Kind("parent", "i.parent", "plain"),
    "labels": _Kind("labels", "SELECT l.label FROM issue_label l WHERE l.issue = i.key", "many"),
    "component": _Kind("component", "SELECT c.component FROM issue_component c WHERE c.issue = i.key", "many"),
    "fixversion": _Kind("fixVersion", "SELECT v.version FROM issue_version v WHERE v.issue = i.key AND v.kind = 'fix'", "many"),
    "affectedversion": _Kind(
        "affectedVersion", "SELECT v.version FROM issue_version v WHERE v.issue = i.key AND v.kind = 'affects'", "many"
    ),
    "sprint": _Kind("sprint", "SELECT s.sprint_id FROM issue_sprint s WHERE s.issue = i.key", "sprint"),
    "created": _Kind("created", "i.created", "date"),
    "updated": _Kind("updated", "i.updated", "date"),
    "resolved": _Kind("resolved", "i.resolved", "date"),
    "due": _Kind("due", "i.duedate", "day"),
    "timespent": _Kind("timespent", "i.time_spent_s", "number"),
    "timeestimate": _Kind("timeestimate", "i.remaining_s", "number"),
    "timeoriginalestimate": _Kind("timeoriginalestimate", "i.original_s", "number"),
}
_SAME = {
    "issuekey": "key",
    "issue": "key",
    "id": "key",
    "type": "issuetype",
    "components": "component",
    "label": "labels",
    "fixversions": "fixversion",
    "versions": "affectedversion",
    "affectedversions": "affectedversion",
    "duedate": "due",
    "resolutiondate": "resolved",
    "createddate": "created",
    "updateddate": "updated",
    "epic link": "parent",
    "remainingestimate": "timeestimate",
    "originalestimate": "timeoriginalestimate",
}


@dataclass(slots=True)
class JqlReader:
    """Reads one query.

    `now` and `actor` are what `now()` and `currentUser()` mean; `numbers` are the ids of custom fields by lower-case name.
    """

    text: str
    now: datetime
    actor: str
    numbers: dict[str, str]
    tokens: list[QueryToken] = field(default_factory=list[QueryToken])
    place: int = 0
    depth: int = 0
    parameters: list[Any] = field(default_factory=list[Any])

    def read(self) -> JqlQuery:
        """The whole query; `JqlError` if it is not one."""
        if len(self.text) > _MAX_LENGTH:
            raise JqlError(f"The JQL query has {len(self.text)} characters; at most {_MAX_LENGTH} are allowed.")
        self.tokens = split_query(self.text, "JQL", JqlError)
        where = "1" if self._done or self._is("order") else self._either()
        order = self._order()
        if not self._done:
            raise self._error("expecting either 'OR' or 'AND'")
        return JqlQuery(where, order, tuple(self.parameters))

    # -- the grammar ---------------------------------------------------------------------------------------------------

    @property
    def _done(self) -> bool:
        return self.place >= len(self.tokens)

    def _is(self, word: str) -> bool:
        return not self._done and not self.tokens[self.place].quoted and self.tokens[self.place].text.lower() == word

    def _take(self, word: str) -> bool:
        if self._is(word):
            self.place += 1
            return True
        return False

    def _error(self, what: str) -> JqlError:
        if self._done:
            return JqlError(f"Error in the JQL Query: The query ends too early, {what}.")
        token = self.tokens[self.place]
        return JqlError(f"Error in the JQL Query: {what} but got '{token.text[:60]}'. (line 1, character {token.place + 1})")

    def _either(self) -> str:
        parts = [self._both()]
        while self._take("or") or self._take("||"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _both(self) -> str:
        parts = [self._single()]
        while self._take("and") or self._take("&&"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _single(self) -> str:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise JqlError(f"Error in the JQL Query: parentheses and NOT are nested more than {_MAX_DEPTH} deep.")
        try:
            if self._take("not") or self._take("!"):
                return f"NOT {self._single()}"
            if self._take("("):
                inside = self._either()
                if not self._take(")"):
                    raise self._error("expecting ')'")
                return f"({inside})"
            return self._clause()
        finally:
            self.depth -= 1

    def _clause(self) -> str:
        kind = self._field()
        if self._done:
            raise self._error("expecting an operator (=, !=, <, >, <=, >=, ~, !~, IN, IS)")
        if self._take("is"):
            negated = self._take("not")
            if not (self._take("empty") or self._take("null")):
                raise self._error("expecting EMPTY or NULL")
            return _emptiness(kind, empty=not negated)
        if self._is("was") or self._is("changed"):
            word = self.tokens[self.place].text.upper()
            raise JqlError(
                f"The operator '{word}' is not supported here; read the changelog of an issue (expand=changelog) instead."
            )
        if self._take("not"):
            if not self._take("in"):
                raise self._error("expecting IN")
            return self._membership(kind, inside=False)
        if self._take("in"):
            return self._membership(kind, inside=True)
        sign = self.tokens[self.place].text
        if sign not in _SIGNS or self.tokens[self.place].quoted:
            raise self._error("expecting an operator (=, !=, <, >, <=, >=, ~, !~, IN, IS)")
        self.place += 1
        return self._comparison(kind, sign)

    def _field(self) -> _Kind:
        if self._done:
            raise self._error("expecting a field name")
        token = self.tokens[self.place]
        if not token.quoted and (token.text in _SIGNS or token.text in {"(", ")", ","} or token.text.lower() in _KEYWORDS):
            raise self._error("expecting a field name")
        self.place += 1
        name = token.text.lower()
        name = _SAME.get(name, name)
        if name in _FIELDS:
            return _FIELDS[name]
        custom = self.numbers.get(name) or self.numbers.get(re.sub(r"^cf\[(\d+)\]$", r"customfield_\1", name))
        if custom:
            return _Kind(
                token.text, f"(SELECT f.value FROM issue_field f WHERE f.issue = i.key AND f.field = '{custom}')", "custom"
            )
        raise JqlError(f"Field '{token.text[:60]}' does not exist or you do not have permission to view it.")

    def _membership(self, kind: _Kind, *, inside: bool) -> str:
        if self._take("("):
            parts = [self._comparison(kind, "=")]
            while self._take(","):
                parts.append(self._comparison(kind, "="))
            if not self._take(")"):
                raise self._error("expecting ')'")
        else:
            parts = [self._comparison(kind, "=")]
        joined = f"({' OR '.join(parts)})"
        return joined if inside else f"(NOT {joined} AND {_emptiness(kind, empty=False)})"

    def _order(self) -> str:
        terms: list[str] = []
        if self._take("order"):
            if not self._take("by"):
                raise self._error("expecting 'BY'")
            while True:
                kind = self._field()
                column = kind.order or ("" if kind.how in {"text", "many", "people", "sprint"} else kind.column)
                if not column:
                    raise JqlError(f"Field '{kind.name}' cannot be sorted.")
                down = self._take("desc") or (self._take("asc") and False)
                terms += [
                    f"{each.strip()} {'DESC' if down else 'ASC'}" for each in ([column] if "(" in column else column.split(","))
                ]
                if not self._take(","):
                    break
        return ", ".join([*terms, "i.project ASC", "i.number DESC"])

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self) -> tuple[str, str | None]:
        """One value, and the lower-case name if it is a function; the text is then its argument."""
        if self._done:
            raise self._error("expecting a value")
        token = self.tokens[self.place]
        if not token.quoted and token.text in _SIGNS | {"(", ")", ","}:
            raise self._error("expecting a value")
        self.place += 1
        if not token.quoted and self._take("("):
            argument = ""
            if not self._is(")"):
                argument = self._value()[0]
            if not self._take(")"):
                raise self._error("expecting ')'")
            return argument, token.text.lower()
        return token.text, None

    def _bind(self, value: Any) -> str:
        self.parameters.append(value)
        return f"?{len(self.parameters)}"

    def _comparison(self, kind: _Kind, sign: str) -> str:
        start = self.tokens[self.place] if not self._done else None
        value, function = self._value()
        if start is not None and not start.quoted and function is None and value.lower() in {"empty", "null"}:
            if sign not in {"=", "!="}:
                raise JqlError(f"The operator '{sign}' cannot be used with EMPTY.")
            return _emptiness(kind, empty=sign == "=")
        rules: dict[str, Callable[[_Kind, str, str, str | None], str]] = {
            "text": self._text,
            "date": self._date,
            "day": self._date,
            "number": self._number,
            "custom": self._custom,
            "person": self._person,
            "people": self._person,
            "sprint": self._sprint,
        }
        return rules.get(kind.how, self._plain)(kind, sign, value, function)

    def _plain(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        if function is not None:
            return self._version(kind, sign, function)
        if kind.name == "key" and sign in {"<", ">", "<=", ">="}:
            project, _, number = value.upper().rpartition("-")
            if not number.isdecimal() or len(number) > _MAX_DIGITS:
                raise JqlError(f"An issue with key '{value[:60]}' does not exist for field 'key'.")
            return f"(i.project = {self._bind(project)} AND i.number {sign} {self._bind(int(number))})"
        if kind.name == "priority" and sign in {"<", ">", "<=", ">="}:
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[sign]  # rank 1 is the highest priority
            wanted = f"(SELECT p.rank FROM priority p WHERE p.name = {self._bind(value)} COLLATE NOCASE)"
            return f"{_PRIORITIES} {turned} {wanted}"
        if sign not in {"=", "!="}:
            raise JqlError(f"The operator '{sign}' is not supported by the '{kind.name}' field.")
        bound = self._bind(value)
        if kind.name == "project":  # by key or by name
            bound = f"coalesce((SELECT p.key FROM project p WHERE p.name = {bound} COLLATE NOCASE), upper({bound}))"
        if kind.how == "many":
            return f"{bound} COLLATE NOCASE {'IN' if sign == '=' else 'NOT IN'} ({kind.column})"
        test = f"{kind.column} = {bound} COLLATE NOCASE"
        return f"({test})" if sign == "=" else f"({kind.column} IS NOT NULL AND NOT {test})"

    def _version(self, kind: _Kind, sign: str, function: str) -> str:
        wanted = {"unreleasedversions": 0, "releasedversions": 1}.get(function)
        if kind.name not in {"fixVersion", "affectedVersion"} or wanted is None or sign not in {"=", "!="}:
            raise JqlError(f"Unable to find JQL function '{function}()' for the field '{kind.name}'.")
        names = f"SELECT n.name FROM version n WHERE n.project = i.project AND n.released = {wanted}"
        test = f"EXISTS ({kind.column} AND v.version IN ({names}))"
        return test if sign == "=" else f"NOT {test}"

    def _person(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        if function not in {None, "currentuser"}:
            raise JqlError(f"Unable to find JQL function '{function}()'; for people there is currentUser().")
        if sign not in {"=", "!="}:
            raise JqlError(f"The operator '{sign}' is not supported by the '{kind.name}' field.")
        bound = self._bind(self.actor if function else value)
        same = " OR ".join(f"u.{column} = {bound} COLLATE NOCASE" for column in ("account_id", "email", "display_name"))
        people = f"SELECT u.account_id FROM person u WHERE {same}"
        if kind.how == "people":
            test = f"EXISTS ({kind.column} AND w.account_id IN ({people}))"
            return test if sign == "=" else f"NOT {test}"
        return f"{kind.column} {'IN' if sign == '=' else 'NOT IN'} ({people})"

    def _sprint(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        states = {"opensprints": "active", "closedsprints": "closed", "futuresprints": "future"}
        if function is not None and function not in states:
            raise JqlError(
                f"Unable to find JQL function '{function}()'; there are openSprints(), closedSprints() and futureSprints()."
            )
        if sign not in {"=", "!="}:
            raise JqlError(f"The operator '{sign}' is not supported by the '{kind.name}' field.")
        if function:
            chosen = f"n.state = {self._bind(states[function])}"
        else:
            bound = self._bind(value)
            chosen = f"(n.name = {bound} COLLATE NOCASE OR CAST(n.id AS TEXT) = {bound})"
        test = f"EXISTS ({kind.column} AND s.sprint_id IN (SELECT n.id FROM sprint n WHERE {chosen}))"
        return test if sign == "=" else f"NOT {test}"

    def _text(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        if function is not None or sign not in {"~", "!~"}:
            raise JqlError(f"The operator '{sign}' is not supported by the '{kind.name}' field; use '~' or '!~'.")
        words = match_expression(value, column=kind.column)
        if words is None:
            raise JqlError(f"The text query '{value[:60]}' for field '{kind.name}' has no words to search for.")
        found = f"SELECT rowid FROM issue_words WHERE issue_words MATCH {self._bind(words)}"
        return f"i.id {'IN' if sign == '~' else 'NOT IN'} ({found})"

    def _date(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        if sign in {"~", "!~"}:
            raise JqlError(f"The operator '{sign}' is not supported by the '{kind.name}' field.")
        try:
            moment = named_moment(function, value, self.now) if function else parse_moment(value, self.now)
        except ValueError as error:
            raise JqlError(f"Date value '{value[:60]}' for field '{kind.name}' is invalid. {error}") from error
        whole = re.fullmatch(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}", value) is not None
        if kind.how == "day":
            return f"{kind.column} {sign} {self._bind(moment.date().isoformat())}"
        text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if sign in {"=", "!="} and whole:
            end = (moment + timedelta(days=1)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            test = f"({kind.column} >= {self._bind(text)} AND {kind.column} < {self._bind(end)})"
            return test if sign == "=" else f"NOT {test}"
        return f"{kind.column} {sign} {self._bind(text)}"

    def _number(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        hours = re.fullmatch(r"(\d{1,15})([mhdw])?", value)
        if function is not None or sign in {"~", "!~"} or hours is None:
            raise JqlError(f"The value '{value[:60]}' is not a duration for the field '{kind.name}'; write 30m, 4h, 2d or 1w.")
        seconds = int(hours[1]) * {"m": 60, "h": 3600, "d": 28_800, "w": 144_000}[hours[2] or "m"]
        return f"{kind.column} {sign} {self._bind(seconds)}"

    def _custom(self, kind: _Kind, sign: str, value: str, function: str | None) -> str:
        if function is not None:
            raise JqlError(f"Unable to find JQL function '{function}()' for the field '{kind.name}'.")
        if sign in {"~", "!~"}:
            return f"instr(lower({kind.column}), lower({self._bind(value)})) {'> 0' if sign == '~' else '= 0'}"
        if re.fullmatch(r"-?\d+(\.\d+)?", value):
            return f"CAST({kind.column} AS REAL) {sign} {self._bind(float(value))}"
        if sign not in {"=", "!="}:
            raise JqlError(f"The operator '{sign}' needs a number for the field '{kind.name}'; got '{value[:60]}'.")
        return f"{kind.column} {sign} {self._bind(value)} COLLATE NOCASE"


def _emptiness(kind: _Kind, *, empty: bool) -> str:
    if kind.how in {"many", "people", "sprint"}:
        return f"{'NOT ' if empty else ''}EXISTS ({kind.column})"
    if kind.how == "text":
        column = {"summary": "i.summary", "description": "i.description"}.get(kind.column)
        if column is None:
            raise JqlError(f"The operator 'IS' is not supported by the '{kind.name}' field.")
        return f"coalesce({column}, '') {'=' if empty else '<>'} ''"
    return f"{kind.column} IS {'' if empty else 'NOT '}NULL"
