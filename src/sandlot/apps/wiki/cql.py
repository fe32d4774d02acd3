"""CQL, the query language of Confluence: a query becomes SQL over the pages. Every value is a parameter of the statement."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandlot.apps.clock import time_text
from sandlot.apps.moments import named_moment, parse_moment
from sandlot.apps.query import QueryToken, split_query
from sandlot.apps.words import match_expression

_MAX_LENGTH, _MAX_DEPTH = 5000, 30
_SIGNS = {"=", "!=", "~", "!~", "<", ">", "<=", ">="}
_DATES = {"created": "p.created", "lastmodified": "p.updated"}
_PEOPLE = {
    "creator": "p.creator IN ({people})",
    "contributor": "EXISTS (SELECT 1 FROM page_version v WHERE v.page = p.id AND v.author IN ({people}))",
}
_KNOWN = "space, title, text, siteSearch, type, label, creator, contributor, created, lastmodified, parent, ancestor, id"


class CqlError(ValueError):
    """The query is wrong; the text says how."""


@dataclass(slots=True)
class CqlReader:
    """Reads one query. `now` and `actor` are what `now()` and `currentUser()` mean."""

    text: str
    now: datetime
    actor: str
    tokens: list[QueryToken] = field(default_factory=list[QueryToken])
    place: int = 0
    depth: int = 0
    parameters: list[Any] = field(default_factory=list[Any])

    def read(self) -> tuple[str, str, tuple[Any, ...]]:
        """The condition and the order over `page p`, and the parameters; `CqlError` if it is not a query."""
        if len(self.text) > _MAX_LENGTH:
            raise CqlError(f"Could not parse cql: it has {len(self.text)} characters; at most {_MAX_LENGTH} are allowed")
        self.tokens = split_query(self.text, "CQL", CqlError)
        where = "1" if self._done or self._is("order") else self._either()
        order = self._order()
        if not self._done:
            raise self._error("expecting AND, OR or ORDER BY")
        return where, order, tuple(self.parameters)

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

    def _error(self, what: str) -> CqlError:
        near = "the end" if self._done else f"'{self.tokens[self.place].text[:60]}'"
        return CqlError(f"Could not parse cql : {self.text[:200]} ({what} at {near})")

    def _either(self) -> str:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return f"({' OR '.join(parts)})"

    def _both(self) -> str:
        parts = [self._single()]
        while self._take("and"):
            parts.append(self._single())
        return f"({' AND '.join(parts)})"

    def _single(self) -> str:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise CqlError(f"Could not parse cql: parentheses and NOT are nested more than {_MAX_DEPTH} deep")
        try:
            if self._take("not"):
                return f"NOT {self._single()}"
            if self._take("("):
                inside = self._either()
                if not self._take(")"):
                    raise self._error("expecting ')'")
                return inside
            return self._clause()
        finally:
            self.depth -= 1

    def _clause(self) -> str:
        name = self._word("expecting a field").lower()
        negated = self._take("not")
        if self._take("in"):
            if not self._take("("):
                raise self._error("expecting '('")
            parts = [self._comparison(name, "=")]
            while self._take(","):
                parts.append(self._comparison(name, "="))
            if not self._take(")"):
                raise self._error("expecting ')'")
            return f"{'NOT ' if negated else ''}({' OR '.join(parts)})"
        sign = self._word("expecting an operator")
        if sign not in _SIGNS or negated:
            raise self._error(f"expecting an operator after `{name[:40]}`")
        return self._comparison(name, sign)

    def _word(self, what: str) -> str:
        if self._done:
            raise self._error(what)
        self.place += 1
        return self.tokens[self.place - 1].text

    def _order(self) -> str:
        terms: list[str] = []
        if self._take("order"):
            if not self._take("by"):
                raise self._error("expecting BY")
            while True:
                name = self._word("expecting a field").lower()
                column = {"title": "p.title", "space": "p.space", **_DATES}.get(name)
                if column is None:
                    raise CqlError(
                        f"Could not parse cql: cannot sort by `{name[:40]}`; sort by title, space, created or lastmodified"
                    )
                down = self._take("desc") or (self._take("asc") and False)
                terms.append(f"{column} {'DESC' if down else 'ASC'}")
                if not self._take(","):
                    break
        return ", ".join([*terms, "p.updated DESC", "p.id ASC"])

    def _bind(self, value: Any) -> str:
        self.parameters.append(value)
        return f"?{len(self.parameters)}"

    def _value(self) -> tuple[str, str | None]:
        text = self._word("expecting a value")
        if not self.tokens[self.place - 1].quoted and self._take("("):
            argument = "" if self._is(")") else self._word("expecting a value")
            if not self._take(")"):
                raise self._error("expecting ')'")
            return argument, text.lower()
        return text, None

    def _comparison(self, name: str, sign: str) -> str:
        value, function = self._value()
        if name in _DATES:
            return self._date(name, sign, value, function)
        if function is not None and function != "currentuser":
            raise CqlError(f"Could not parse cql: there is no function {function[:40]}() for the field {name[:40]}")
        positive, test = sign in {"=", "~"}, self._test(name, sign, self.actor if function else value)
        return test if positive else f"NOT {test}"

    def _test(self, name: str, sign: str, value: str) -> str:
        if sign not in {"=", "!=", "~", "!~"}:
            raise CqlError(f"Could not parse cql: the operator {sign} cannot be used with `{name[:40]}`")
        like = sign in {"~", "!~"}
        if name in {"text", "sitesearch"} or (name == "title" and like):
            words = match_expression(value, column="title" if name == "title" else "")
            if words is None:
                return "0"
            return f"(p.id IN (SELECT rowid FROM page_words WHERE page_words MATCH {self._bind(words)}))"
        tests = {
            "space": "(p.space = {} COLLATE NOCASE)",
            "space.key": "(p.space = {} COLLATE NOCASE)",
            "title": "(p.title = {} COLLATE NOCASE)",
            "type": "({} = 'page' COLLATE NOCASE)",
            "label": "EXISTS (SELECT 1 FROM label l WHERE l.page = p.id AND l.name = {} COLLATE NOCASE)",
            "id": "(CAST(p.id AS TEXT) = {})",
            "content": "(CAST(p.id AS TEXT) = {})",
            "parent": "(CAST(p.parent AS TEXT) = {})",
            "ancestor": "(p.id IN (WITH RECURSIVE below(id) AS (SELECT id FROM page WHERE CAST(parent AS TEXT) = {} UNION"
            " SELECT c.id FROM page c JOIN below b ON c.parent = b.id) SELECT id FROM below))",
        }
        if name in tests:
            return tests[name].format(self._bind(value))
        if name in _PEOPLE:
            bound = self._bind(value)
            people = (
                f"SELECT u.account_id FROM person u WHERE u.account_id = {bound} OR u.email = {bound} OR u.display_name = {bound}"
            )
            return "(" + _PEOPLE[name].format(people=people) + ")"
        raise CqlError(f"Could not parse cql: there is no field `{name[:40]}`; there are {_KNOWN}")

    def _date(self, name: str, sign: str, value: str, function: str | None) -> str:
        if sign in {"~", "!~"}:
            raise CqlError(f"Could not parse cql: the operator {sign} cannot be used with `{name}`")
        try:
            moment = named_moment(function, value, self.now) if function else parse_moment(value, self.now)
        except ValueError as error:
            raise CqlError(f"Could not parse cql: `{value[:40]}` is not a date. {error}") from error
        if sign in {"=", "!="}:
            test = f"(substr({_DATES[name]}, 1, 10) = {self._bind(time_text(moment)[:10])})"
            return test if sign == "=" else f"NOT {test}"
        return f"({_DATES[name]} {sign} {self._bind(time_text(moment))})"
