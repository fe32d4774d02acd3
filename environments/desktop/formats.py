"""Reads what applications have saved. The files are the agent's: sizes are limited, XML that declares entities is refused."""

import configparser
import gzip
import io
import re
import zipfile
import zlib
from xml.etree import ElementTree as ET

MAX_BYTES = 4 * 2**20
_MAX_COLUMNS = 16_384
_NAMESPACE = re.compile(r"\{[^}]*\}")
_REFERENCE = re.compile(r"(?<![\w$.])(\$?)([A-Z]{1,3})(\$?)([1-9]\d{0,6})(?![\w(.])")


class Unreadable(Exception):  # noqa: N818 - a finding, not an error
    """The file is not what its name says."""


def parse_xml(data: bytes) -> ET.Element:
    """XML without document types and entities."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"it has more than {MAX_BYTES} bytes")
    if b"\0" in data or data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise Unreadable("it is not UTF-8")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unreadable("it declares a document type or entities")
    try:
        root = ET.fromstring(data)  # noqa: S314 - no entities, and of limited size
    except (ET.ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"it is not XML: {error}") from None
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = _NAMESPACE.sub("", element.tag)
    return root


def gnumeric_cells(data: bytes) -> dict[str, dict[str, str]]:
    """The cells of a Gnumeric workbook: by sheet, then by place such as `B3`, the entered text: a formula begins with `=`."""
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise Unreadable(f"it cannot be unpacked: {error}") from None
    sheets: dict[str, dict[str, str]] = {}
    shared: dict[str, tuple[str, int, int]] = {}
    for sheet in parse_xml(data).iter("Sheet"):
        cells = sheets.setdefault(sheet.findtext("Name") or "", {})
        for cell in sheet.iter("Cell"):
            try:
                column, row = int(cell.get("Col", "")), int(cell.get("Row", ""))
            except ValueError:
                raise Unreadable("a cell has no place") from None
            text = cell.text or ""
            if expression := cell.get("ExprID"):  # a copied formula: only the first cell has its text
                if text:
                    shared[expression] = text, column, row
                elif expression in shared:
                    first, first_column, first_row = shared[expression]
                    text = _copied(first, column - first_column, row - first_row)
            cells[f"{_letters(column)}{row + 1}"] = text
    return sheets


def _copied(formula: str, right: int, down: int) -> str:
    """A formula as it reads in a cell that it was copied to; references with `$` stay."""

    def moved(found: re.Match[str]) -> str:
        fixed_column, letters, fixed_row, digits = found.groups()
        column = _column(letters) + (0 if fixed_column else right)
        row = int(digits) + (0 if fixed_row else down)
        in_sheet = 0 <= column < _MAX_COLUMNS and row > 0
        return f"{fixed_column}{_letters(column)}{fixed_row}{row}" if in_sheet else "#REF!"

    return _REFERENCE.sub(moved, formula)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


def _letters(column: int) -> str:
    if not 0 <= column < _MAX_COLUMNS:
        raise Unreadable("a cell has no place")
    letters, column = "", column + 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def zip_members(data: bytes) -> dict[str, bytes]:
    """The files in a zip archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if len(infos) > 200 or sum(info.file_size for info in infos) > MAX_BYTES:
                raise Unreadable("it holds too much")
            return {info.filename: _member(archive, info) for info in infos}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error) as error:
        raise Unreadable(f"it is not a zip archive: {error}") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as member:
        return member.read(MAX_BYTES)


def key_value(data: bytes, section: str, key: str) -> str | None:
    """A setting of a key file; None if it is not there."""
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(data[:MAX_BYTES].decode())
        return parser.get(section, key, fallback=None)
    except (configparser.Error, UnicodeDecodeError) as error:
        raise Unreadable(f"it is not a file of settings: {error}") from None


def zim_body(text: str) -> str:
    """The text of a Zim page without its header, which has the time it was made."""
    head, blank, body = text.partition("\n\n")
    return body if blank and head.startswith("Content-Type:") else text
