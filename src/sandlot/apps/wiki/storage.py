"""Pages in the storage format of Confluence (XHTML) as Markdown. Nothing is fetched, no entity is expanded."""

import re
from html.parser import HTMLParser

_INLINE = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
_DROPPED = {"script", "style"}


class StorageParser(HTMLParser):
    """Collects Markdown from the elements that pages are made of; others leave their text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._lists: list[list[int | None]] = []
        self._links: list[str] = []
        self._cells = 0
        self._dropping = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        if tag in _DROPPED:
            self._dropping += 1
        elif re.fullmatch(r"h[1-6]", tag):
            self.parts.append("\n\n" + "#" * int(tag[1]) + " ")
        elif tag in {"p", "div", "table"}:
            self.parts.append("\n\n" if not self._cells else "")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in {"ul", "ol"}:
            self._lists.append([0 if tag == "ol" else None])
        elif tag == "li":
            self._start_item()
        elif tag == "tr":
            self.parts.append("\n|")
            self._cells = 0
        elif tag in {"td", "th"}:
            self._cells += 1
            self.parts.append(" ")
        elif tag in _INLINE:
            self.parts.append(_INLINE[tag])
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
            self.parts.append("[")

    def _start_item(self) -> None:
        depth = max(0, len(self._lists) - 1)
        mark = "-"
        if self._lists and (count := self._lists[-1][0]) is not None:
            self._lists[-1][0] = count + 1
            mark = f"{count + 1}."
        self.parts.append(f"\n{'  ' * min(depth, 20)}{mark} ")

    def handle_endtag(self, tag: str) -> None:
        """Called by the parser."""
        if tag in _DROPPED:
            self._dropping = max(0, self._dropping - 1)
        elif tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self.parts.append("\n" if not self._lists else "")
        elif tag in {"td", "th"}:
            self.parts.append(" |")
        elif tag == "tr":
            self._cells = 0
        elif tag in _INLINE:
            self.parts.append(_INLINE[tag])
        elif tag == "a" and self._links:
            self.parts.append(f"]({self._links.pop()})")

    def handle_data(self, data: str) -> None:
        """Called by the parser."""
        if not self._dropping:
            self.parts.append(re.sub(r"\s+", " ", data))


def markdown_of(storage: str) -> str:
    """The Markdown of a page in storage format."""
    parser = StorageParser()
    parser.feed(storage)
    parser.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(parser.parts)).strip()
