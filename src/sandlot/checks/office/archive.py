"""Office files (`.xlsx`, `.docx`, `.pptx`) as zips of XML parts, read with strict limits.

The agent made the file, so every byte of it is hostile: zip bombs, XML entities, two parts of one name, elements that no office
program would show. `OfficeArchive` refuses such a file with `NotInEvidence`, so that the check is not met and grading goes on.
Only elements of the namespaces of Office Open XML are kept; others are dropped with their content, as office programs do.
"""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from sandlot.core.errors import NotInEvidence

_MAX_FILE_BYTES = 32 * 2**20
_MAX_PARTS = 2_000
_MAX_PART_BYTES = 16 * 2**20
_MAX_ALL_BYTES = 96 * 2**20
_MAX_ELEMENTS = 600_000
"""Elements of all parts of one file that are read."""
_MAX_DEPTH = 200
_RELATION_SPACES = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "http://purl.oclc.org/ooxml/officeDocument/relationships",
)
_SPACES = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://schemas.openxmlformats.org/presentationml/2006/main",
    "http://schemas.openxmlformats.org/drawingml/2006/",
    "http://schemas.openxmlformats.org/package/2006/",
    "http://schemas.openxmlformats.org/officeDocument/2006/",
    "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "http://purl.oclc.org/ooxml/",
    "http://schemas.microsoft.com/office/spreadsheetml/2009/",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "http://schemas.microsoft.com/office/excel/2006/main",
    "http://purl.org/dc/",
)
"""Elements of other namespaces are dropped. The relationship attributes get the prefix `r:`; all other names lose theirs."""


class OfficeArchive:
    """The parts of one office file. `what` names the file in errors."""

    def __init__(self, data: bytes, what: str, spaces: tuple[str, ...] = _SPACES) -> None:
        """`spaces` are the beginnings of the namespaces whose elements are kept."""
        self.what, self.spaces = what, spaces
        if len(data) > _MAX_FILE_BYTES:
            self.refuse(f"has {len(data):,} bytes; at most {_MAX_FILE_BYTES:,} are read")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, OverflowError) as error:
            self.refuse(f"is not an office file: {error}")
        infos = self._zip.infolist()
        self.names = {info.filename.lstrip("/"): info for info in infos if not info.is_dir()}
        if len(infos) > _MAX_PARTS:
            self.refuse(f"has {len(infos):,} parts; at most {_MAX_PARTS:,} are read")
        if len({name.lower() for name in self.names}) != sum(not info.is_dir() for info in infos):
            self.refuse("has two parts of one name, and programs differ in which they read")
        if sum(info.file_size for info in infos) > _MAX_ALL_BYTES:
            self.refuse(f"unpacks to more than {_MAX_ALL_BYTES:,} bytes")
        self._trees: dict[str, Element] = {}
        self._num_elements = 0

    def refuse(self, why: str) -> NoReturn:
        """Raise the error that makes a check not met because of this file."""
        raise NotInEvidence(f"`{self.what}` {why}", kind="cut")

    def read(self, name: str) -> bytes:
        """The bytes of a part."""
        if name not in self.names:
            self.refuse(f"has no part `{name}`")
        info = self.names[name]
        if info.flag_bits & 1 or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            self.refuse(f"has a part that is encrypted or packed in an unusual way: `{name}`")
        try:
            with self._zip.open(info) as part:
                data = part.read(_MAX_PART_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError) as error:
            self.refuse(f"has a damaged part `{name}`: {error}")
        if len(data) > _MAX_PART_BYTES:
            self.refuse(f"has a part of more than {_MAX_PART_BYTES:,} bytes: `{name}`")
        return data

    def tree(self, name: str) -> Element:
        """The XML of a part, with local names."""
        if name not in self._trees:
            self._trees[name] = _Reading(self, name).parse(self.read(name))
        return self._trees[name]

    def count_element(self) -> None:
        """Refuse the file once all its parts together have too many elements: each takes memory on the host."""
        self._num_elements += 1
        if self._num_elements > _MAX_ELEMENTS:
            self.refuse(f"has more than {_MAX_ELEMENTS:,} elements")

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Relation id -> (last word of its type, path of the target part). Targets outside of the file are left out."""
        folder, base = posixpath.split(name)
        part = posixpath.join(folder, "_rels", f"{base}.rels")
        if part not in self.names:
            return {}
        found: dict[str, tuple[str, str]] = {}
        for each in self.tree(part):
            if each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", ""))).lstrip("/")
                found[each.get("Id", "")] = (each.get("Type", "").rpartition("/")[2], target)
        return found

    def related(self, name: str, kind: str) -> list[str]:
        """Paths of the parts that this part relates to with a type that ends in `kind`, in the order of their ids."""
        return [target for what, target in self.relations(name).values() if what == kind and target in self.names]

    def main_part(self, kind: str) -> str:
        """The part that the whole file is about; it must be one of `workbook`, `document` or `presentation`."""
        parts = self.related("", "officeDocument") or [name for name in self.names if name.endswith(f"/{kind}.xml")]
        if len(parts) != 1 or self.tree(parts[0]).tag != kind:
            self.refuse(f"is not a {kind}")
        return parts[0]


class _Reading:
    """One XML part on its way to a tree."""

    def __init__(self, archive: OfficeArchive, name: str) -> None:
        self.archive, self.name = archive, name
        self.builder = TreeBuilder()
        self.depth = self.dropped = 0

    def parse(self, data: bytes) -> Element:
        parser = expat.ParserCreate(encoding="utf-8", namespace_separator="\n")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.StartDoctypeDeclHandler = self.doctype
        try:
            parser.Parse(data, True)  # noqa: FBT003 - expat takes no keywords
            return self.builder.close()
        except (expat.ExpatError, AssertionError, UnicodeError) as error:
            self.archive.refuse(f"has a part that is not XML, `{self.name}`: {error}")

    def doctype(self, *_: object) -> None:
        self.archive.refuse(f"has a part with a document type, which may define entities: `{self.name}`")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.archive.count_element()
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.archive.refuse(f"has a part with too deeply nested elements: `{self.name}`")
        space, _, local = tag.rpartition("\n")
        if self.dropped or local == "Fallback" or not space.startswith(self.archive.spaces):
            self.dropped += 1
            return
        self.builder.start(local, {_attribute(name): value for name, value in attributes.items()})

    def end(self, tag: str) -> None:
        self.depth -= 1
        if self.dropped:
            self.dropped -= 1
            return
        self.builder.end(tag.rpartition("\n")[2])

    def text(self, data: str) -> None:
        if not self.dropped:
            self.builder.data(data)


def _attribute(name: str) -> str:
    space, _, local = name.rpartition("\n")
    return f"r:{local}" if space in _RELATION_SPACES else local


def child(element: Element | None, *path: str) -> Element | None:
    """The first descendant along these names, or None."""
    for name in path:
        element = next((each for each in element if each.tag == name), None) if element is not None else None
    return element


def children(element: Element | None, *path: str) -> Iterator[Element]:
    """The elements named by the last name, below the first descendant along the others."""
    above = child(element, *path[:-1])
    return (each for each in above if each.tag == path[-1]) if above is not None else iter(())


def value_of(element: Element | None, *path: str, default: str = "") -> str:
    """The attribute `val` of the descendant along these names."""
    found = child(element, *path)
    return default if found is None else found.get("val", default)


def is_on(element: Element | None, *path: str) -> bool:
    """True if the descendant exists and is not switched off, as `<b/>` and `<b val="1"/>` but not `<b val="0"/>`."""
    found = child(element, *path)
    return found is not None and found.get("val", "1") not in {"0", "false", "off", "none"}


@lru_cache(maxsize=2)
def open_office(data: bytes, what: str) -> OfficeArchive:
    """The archive of these bytes; the last two are kept, since many checks look at one file, or compare two."""
    return OfficeArchive(data, what)
