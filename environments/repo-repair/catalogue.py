"""The bugs there are to plant: which text takes the place of which, and what it spoils."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plant:
    kind: str
    place: str
    """`package/module`."""
    about: tuple[str, ...]
    """Functions it spoils: their cases are tried until enough of them come out wrong."""
    changes: tuple[tuple[str, str], ...]
    """Right text -> wrong text; each right one stands exactly once in the module."""

    @property
    def package(self) -> str:
        return self.place.partition("/")[0]

    @property
    def module(self) -> str:
        return self.place.partition("/")[2]

    def planted(self, text: str) -> str:
        for right, wrong in self.changes:
            if text.count(right) != 1:
                raise ValueError(f"{self.place}: {right!r} stands {text.count(right)} times")
            text = text.replace(right, wrong)
        return text


def plant(kind: str, place: str, about: str, right: str, wrong: str, *more: tuple[str, str]) -> Plant:
    return Plant(kind, place, tuple(about.split()), ((right, wrong), *more))


PLANTS = (
    plant("default", "shelf/words", "slug", 'separator="-"', 'separator="_"'),
    plant("case", "shelf/words", "count_words", "key = word.casefold()", "key = word"),
    plant("length", "shelf/words", "truncate preview", "limit - len(tail)", "limit"),
    plant("boundary", "shelf/words", "truncate", "len(text) <= limit", "len(text) < limit"),
    plant("blanks", "shelf/words", "initials", "name.split()", 'name.split(" ")'),
    plant("off-by-one", "shelf/lines", "wrap", "len(line) + 1 + len(word)", "len(line) + len(word)"),
    plant("remainder", "shelf/lines", "wrap", "    if line:\n        lines.append(line)\n    return", "    return"),
    plant("variable", "shelf/lines", "number", "len(str(start + len(lines) - 1))", "len(str(len(lines)))"),
    plant("separator", "shelf/lines", "field", 'piece.partition("=")', 'piece.rpartition("=")'),
    plant("order", "shelf/lines", "preview", "text.splitlines() if", "text.splitlines()[:lines] if"),
    plant("encoding", "shelf/lines", "decoded", '"utf-8-sig"', '"utf-8"'),
    plant("encoding", "shelf/lines", "decoded", "data.decode(fallback)", 'data.decode("utf-8", "ignore")'),
    plant("padding", "tally/amounts", "parse", "part.ljust", "part.rjust"),
    plant("precedence", "tally/amounts", "parse", "sign * (int(whole or 0) * 100 + ", "(sign * int(whole or 0) * 100 + "),
    plant("negative", "tally/amounts", "shown", "abs(cents) // 100", "cents // 100"),
    plant("off-by-one", "tally/amounts", "split", "place < rest", "place <= rest"),
    plant("rounding", "tally/amounts", "percent with_tax", "rate + 50)", "rate)"),
    plant("negative", "tally/amounts", "percent with_tax",
          "sign * ((abs(cents) * rate + 50) // 100)", "(cents * rate + 50) // 100"),
    plant("aliasing", "tally/book", "balances", "dict(opening or {})", "{} if opening is None else opening"),
    plant("mutable default", "tally/book", "balances", "opening=None", "opening={}", ("dict(opening or {})", "opening")),
    plant("variable", "tally/book", "running", "total, result = start, []", "total, result = 0, []"),
    plant("boundary", "tally/book", "between", "<= last", "< last"),
    plant("negative", "tally/book", "largest", "-abs(entry[2])", "-entry[2]"),
    plant("default", "tally/book", "with_tax", "rate=20", "rate=25"),
    plant("merge", "tally/book", "merged", "in book.items():\n            result[account] = result.get(account, 0) + cents",
          "in book.items():\n            result[account] = cents"),
    plant("off-by-one", "almanac/days", "count workdays", ".days + 1", ".days"),
    plant("short months", "almanac/days", "add_months", "min(start.day, last)", "start.day"),
    plant("boundary", "almanac/days", "workdays", "weekday() < 5", "weekday() <= 5"),
    plant("boundary", "almanac/days", "age", "now.day) < (", "now.day) <= ("),
    plant("timezone", "almanac/moments", "moment",
          "timezone(timedelta(minutes=offset_minutes)))\n    return", "UTC)\n    return"),
    plant("timezone", "almanac/moments", "moment minutes", "parsed.astimezone(UTC)", "parsed.replace(tzinfo=UTC)"),
    plant("timezone", "almanac/moments", "same_day", "moment(other).astimezone(zone).date()", "moment(other).date()"),
    plant("timezone", "almanac/moments", "minutes", ".total_seconds() // 60", ".seconds // 60"),
    plant("boundary", "almanac/moments", "overlap", "first < finish and begin < last", "first <= finish and begin <= last"),
    plant("contained", "almanac/moments", "merged", "max(result[-1][1], end)", "end"),
    plant("order", "almanac/moments", "merged", "sorted((moment(start), moment(end)) for start, end in spans)",
          "[(moment(start), moment(end)) for start, end in spans]"),
    plant("merge", "settings/layers", "merge", "merge(result[name], value)", "{**result[name], **value}"),
    plant("aliasing", "settings/layers", "merge", "copy.deepcopy(value)", "value"),
    plant("falsy", "settings/layers", "get", "name not in tree", "not tree.get(name)"),
    plant("aliasing", "settings/layers", "put", "    return {**tree, name: put(inner, rest, value) if dot else value}",
          "    tree[name] = put(inner, rest, value) if dot else value\n    return tree"),
    plant("empty", "settings/layers", "flatten", "isinstance(value, dict) and value:", "isinstance(value, dict):"),
    plant("case", "settings/texts", "boolean", "text.strip().lower()", "text.strip()"),
    plant("index", "settings/texts", "parse", "line.split(comment, 1)[0]", "line.split(comment, 1)[-1]"),
    plant("separator", "settings/texts", "parse", 'bare.partition("=")', 'bare.rpartition("=")'),
    plant("greedy", "settings/texts", "fill", r"\{([^}]*)\}", r"\{(.*)\}"),
    plant("unknown", "settings/texts", "fill", "found[1], found[0]", 'found[1], ""'),
    plant("prefix", "settings/texts", "overrides", 'startswith(f"{prefix}_")', "startswith(prefix)"),
    plant("off-by-one", "settings/texts", "size", '"kMG".index(unit) + 1', '"kMG".index(unit)'),
    plant("off-by-one", "depot/lists", "page", "(number - 1) * size : number * size", "number * size : (number + 1) * size"),
    plant("rounding", "depot/lists", "pages", "-(-len(items) // size)", "len(items) // size + 1"),
    plant("off-by-one", "depot/lists", "windows", "len(items) - size + 1", "len(items) - size"),
    plant("variable", "depot/lists", "unique", "seen.add(mark)", "seen.add(item)"),
    plant("aliasing", "depot/lists", "grouped", "name: list(values) for", "name: values for"),
    plant("sorting", "depot/lists", "natural", "int(part) if part.isdigit() else part", "part"),
    plant("order", "depot/store", "Store", "        self.kept.pop(name, None)\n", ""),
    plant("order", "depot/store", "Store",
          "thing = self.kept.pop(name)\n        self.kept[name] = thing\n", "thing = self.kept[name]\n"),
    plant("mutable default", "depot/store", "Basket", "items=None", "items={}", ("dict(items) if items else {}", "items")),
    plant("boundary", "depot/store", "Basket", "left > 0", "left >= 0"),
    plant("order", "depot/store", "Queue", "(each[0], each[1])", "(each[0], -each[1])"),
    plant("cache key", "depot/store", "remembered", "key = (args, tuple(sorted(named.items())))", "key = args"),
    plant("escaping", "journal/entries", "escape", ', "\\n": "\\\\n"}', "}"),
    plant("off-by-one", "journal/entries", "unescape", "place += 2 if pair in plain else 1", "place += 1"),
    plant("blanks", "journal/entries", "read", 'line.rstrip("\\n")', "line.strip()"),
    plant("encoding", "journal/files", "append", '"a", encoding="utf-8"', '"a", encoding="ascii", errors="replace"'),
    plant("encoding", "journal/files", "entries", 'encoding="utf-8", newline="\\n") as file:\n        return',
          'encoding="latin-1", newline="\\n") as file:\n        return'),
    plant("line ends", "journal/files", "entries",
          'newline="\\n") as file:\n        return', "newline=None) as file:\n        return"),
    plant("empty", "journal/files", "last", "found[-count:] if count > 0 else []", "found[-count:]"),
    plant("order", "journal/files", "rotate", "range(keep, 0, -1)", "range(1, keep + 1)"),
    plant("leak", "journal/files", "Reader", "        self.lines = {}\n", "        self.lines, self.files = {}, []\n",
          ('        with Path(path).open(encoding="utf-8", newline="\\n") as file:\n            found =',
           '        file = Path(path).open(encoding="utf-8", newline="\\n")\n        self.files.append(file)\n        found =')),
)  # fmt: skip
