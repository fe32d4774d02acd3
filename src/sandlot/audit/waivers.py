"""Waivers: accepted findings, in a file, with a reason, an owner and an expiry date."""

import datetime as dt
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.finding import Finding
from sandlot.core.errors import ConfigError


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[waiver]]` table of `audit.toml`."""

    finding: str
    """A finding's id (`D02.exit-1a2b3c4d`), or a code, which waives every finding with it."""
    reason: str
    owner: str
    expires: str
    """The last day it counts: `2027-01-31`."""

    def __post_init__(self) -> None:
        for name in ("finding", "reason", "owner"):
            if not getattr(self, name).strip():
                raise ValueError(f"a waiver's `{name}` is empty; fill it in, or remove the waiver")
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", self.expires):
            raise ValueError(f"a waiver expires {self.expires!r}; write a date such as `2027-01-31`")
        dt.date.fromisoformat(self.expires)


def read_waivers(place: Path | None) -> list[Waiver]:
    """All waivers of an `audit.toml`; none if there is no file."""
    if place is None or not place.is_file():
        return []
    try:
        tables: Any = tomllib.loads(place.read_text()).get("waiver", [])
        plain = [{key: str(value) if key == "expires" else value for key, value in table.items()} for table in tables]
        return msgspec.convert(plain, list[Waiver])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, ValueError, AttributeError, TypeError) as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(Waiver))
        raise ConfigError(f"{place}: {error}; a [[waiver]] has: {known}") from error


def waiver_for(finding: Finding, waivers: Sequence[Waiver], today: str) -> Waiver | None:
    """The first waiver that covers a finding and has not expired."""
    codes = {finding.id, finding.code, finding.code.partition(".")[0]}
    return next((waiver for waiver in waivers if waiver.finding in codes and waiver.expires >= today), None)
