"""Cases for every function of every package: a few lines of code, from a seed, that leave something in `result`."""

from collections.abc import Callable
from random import Random

WORDS = (
    "Amber",
    "birch",
    "Cedar",
    "DELTA",
    "ember",
    "Fjord",
    "gamma",
    "Straße",
    "indigo",
    "Élan",
    "kelp",
    "x",
    "maple",
    "of",
    "and",
)
ZONES = ("", "+00:00", "+02:00", "-05:00", "+05:30", "+13:00")


def words(rng: Random, most: int = 7) -> str:
    blanks = (" ", " ", "  ", " - ")
    return "".join(rng.choice(WORDS) + rng.choice(blanks) for _ in range(rng.randrange(1, most))).strip(" -")


def cents(rng: Random) -> int:
    return rng.choice((1, -1, 1)) * rng.choice((rng.randrange(100), rng.randrange(100_000), rng.randrange(10**7)))


def day(rng: Random, year: int = 2026) -> str:
    return f"{year}-{rng.randrange(1, 13):02}-{rng.choice((1, 28, 28, rng.randrange(1, 29))):02}"


def moment(rng: Random, zones: tuple[str, ...] = ZONES) -> str:
    return f"2026-03-{rng.randrange(1, 5):02}T{rng.randrange(24):02}:{rng.choice((0, 30, 59)):02}{rng.choice(zones)}"


def span(rng: Random) -> tuple[str, str]:
    start, length = rng.randrange(12), rng.randrange(1, 10)
    return f"2026-03-01T{start:02}:00", f"2026-03-01T{start + length:02}:00"


def entries(rng: Random) -> list[tuple[str, str, int]]:
    return sorted((day(rng), rng.choice("abc"), cents(rng)) for _ in range(rng.randrange(3, 8)))


def tree(rng: Random, depth: int = 0) -> dict[str, object]:
    def value() -> object:
        if depth < 3 and rng.random() < 0.6:
            return tree(rng, depth + 1)
        return rng.choice((0, "", False, 7, "x", [1, 2], {}))

    return {rng.choice("abcd"): value() for _ in range(rng.randrange(1, 5))}


def path(rng: Random) -> str:
    return ".".join(rng.choice("abcd") for _ in range(rng.randrange(1, 4)))


def field(rng: Random) -> str:
    pieces = ("tab\there", "line\nend", "back\\slash", "\\t", " blanks ", "ünïcode", "日本", "\r", "plain", "")
    return rng.choice(pieces) + rng.choice(pieces) + str(rng.randrange(100))


def fields(rng: Random) -> list[str]:
    return [field(rng) for _ in range(rng.randrange(1, 4))]


def in_folder(*lines: str) -> str:
    indented = "\n".join(f"    {line}" for line in lines)
    return f"import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    at = os.path.join(folder, 'log')\n{indented}"


def numbers(rng: Random, most: int = 12) -> list[int]:
    return [rng.randrange(20) for _ in range(rng.randrange(1, most))]


def store_steps(rng: Random) -> str:
    steps = [f"s.put({rng.choice('abcd')!r}, {n})" if rng.random() < 0.6 else f"s.get({rng.choice('abcd')!r})" for n in range(12)]
    return "\n".join([f"s = Store({rng.randrange(2, 4)})", *steps, "result = list(s.kept.items())"])


def basket_steps(rng: Random) -> str:
    steps = [f"b.{rng.choice(('add', 'add', 'remove'))}({rng.choice('xyz')!r}, {rng.randrange(1, 3)})" for _ in range(6)]
    return "\n".join(["c = Basket().add('x')", "b = Basket()", *steps, "result = [b.items, c.items]"])


def queue_steps(rng: Random) -> str:
    pushed = [f"q.push({n}, {rng.randrange(3)})" for n in range(rng.randrange(3, 8))]
    return "\n".join(["q = Queue()", *pushed, "result = q.drain()"])


def variables(rng: Random) -> dict[str, str]:
    names = ("APP_A", "APP_A__B", "APP_C__D", "APPLE_PIE", "APP", "OTHER_A", "APP_LOG__LEVEL")
    return {name: str(rng.randrange(1000)) for name in rng.sample(names, 5)}


def settings_lines(rng: Random) -> list[str]:
    lines = ("a.b = 1", "a.c = x=y", "  # nothing", "d = 5 # five", "", "a.b = 2", "e=", "f = a # b # c", "g.h.i = k=v=w")
    return [f"{line}{rng.randrange(10)}" if line.endswith(("1", "y", "w")) else line for line in rng.sample(lines, 6)]


def filled(rng: Random) -> str:
    text = " ".join(rng.choice(("${a}", "${b.c}", "${nope}", "plain", "${}", "{a}")) + str(rng.randrange(10)) for _ in range(4))
    return f"result = fill({text!r}, {{'a': {rng.randrange(100)}, 'b': {{'c': 'deep'}}}})"


def aged(rng: Random) -> str:
    born = day(rng, 1990)
    today = rng.choice((f"2026{born[4:]}", day(rng)))
    return f"result = age({born!r}, {today!r})"


def shifted(rng: Random) -> str:
    start = rng.choice((day(rng), "2026-01-31", "2026-08-31", "2026-10-30", "2026-12-31"))
    return f"result = add_months({start!r}, {rng.randrange(-14, 30)})"


def encoded(rng: Random) -> str:
    text = words(rng)
    return f"result = decoded({rng.choice((text.encode(), text.encode('utf-8-sig'), text.encode('latin-1')))!r})"


def opened_often(rng: Random) -> str:
    count = rng.randrange(60, 90)
    return in_folder(
        f"append(at, *[[str(n), 'x'] for n in range({rng.randrange(3, 9)})])",
        f"reader = Reader()\n    result = [len(reader.read(at)) for _ in range({count})]",
    )


def truncated(rng: Random) -> str:
    text = words(rng)
    return f"result = truncate({text!r}, {rng.choice((len(text), rng.randrange(4, 20)))})"


def previewed(rng: Random) -> str:
    start = rng.choice(("", "\n", " \n"))
    return f"result = preview({f'{start}{words(rng, 9)}{chr(10) * 2}rest {rng.randrange(99)}{chr(10)}last'!r})"


def a_field(rng: Random) -> str:
    return f"result = field('a=1; b={rng.randrange(9)}=y; c = {rng.randrange(99)} ;d', {rng.choice('abcde')!r})"


def amount(rng: Random) -> str:
    written = f"{rng.choice(('', '-', '+', ' '))}{rng.randrange(9999):,}{rng.choice(('', '.5', '.25', '.07'))}"
    return f"result = parse({written!r})"


def balanced(rng: Random) -> str:
    start = {"a": cents(rng), "z": 1}
    return f"o = {start}\nbalances({entries(rng)!r})\nresult = [balances({entries(rng)!r}, o), o, balances([])]"


def in_between(rng: Random) -> str:
    rows = entries(rng)
    return f"result = between({rows!r}, {rows[0][0]!r}, {rng.choice(rows)[0]!r})"


def taxed(rng: Random) -> str:
    more = rng.choice(("", ", 7", ", exempt=['a']"))
    return f"result = with_tax({entries(rng)!r}{more})"


def several_books(rng: Random) -> str:
    books = {"a": cents(rng), "b": 2}, {"a": cents(rng)}, {"c": 3, "b": cents(rng)}
    return f"result = merged({', '.join(map(str, books))})"


def working(rng: Random) -> str:
    first = rng.randrange(1, 19)
    return f"result = workdays('2026-05-{first:02}', '2026-05-{first + rng.randrange(12):02}', ['2026-05-14'])"


def merged_layers(rng: Random) -> str:
    return "\n".join(
        [
            f"a, b, c = {tree(rng)!r}, {tree(rng)!r}, {tree(rng)!r}",
            "r, m = merge(a, b, c), merge(a)",
            "for v in m.values():",
            "    if type(v) is dict:",
            "        v['new'] = 1",
            "result = [r, a, b, c]",
        ]
    )


def yes_or_no(rng: Random) -> str:
    word = rng.choice((" on", "Yes", "TRUE", "1", "no", "Off", "maybe", "False ", "oN", "YES ", "nO", " tRue"))
    return f"result = [boolean({word!r}), {rng.randrange(99)}]"


def page_counts(rng: Random) -> str:
    return f"result = [pages([0] * n, {rng.randrange(2, 9)}) for n in ({rng.randrange(30)}, 0, 72, {rng.randrange(90)})]"


def grouped_into(rng: Random) -> str:
    pairs = [(rng.choice("ab"), rng.randrange(9)) for _ in range(4)]
    return f"old = {{'a': [{rng.randrange(99)}]}}\nresult = [grouped({pairs!r}, old), old]"


def called_again(rng: Random) -> str:
    calls = f"f({rng.randrange(9)}, b={rng.randrange(5)}), f(3, b={rng.randrange(9)}), f(3, b=11), f(3)"
    return f"f = remembered(lambda a, b=1: [a, b])\nresult = [{calls}]"


def unescaped(rng: Random) -> str:
    text = rng.choice(("\\\\", "\\t", "\\n")) + rng.choice(("a", "tn", "\\\\")) + str(rng.randrange(99))
    return f"result = unescape({text!r})"


def a_line(rng: Random) -> str:
    line = f"{rng.choice(('', ' ', chr(9)))}a{rng.randrange(99)}\tb{rng.choice(('', '  ', chr(9)))}\n"
    return f"result = read({line!r})"


def appended(rng: Random) -> str:
    reading = "with open(at, 'rb') as file:\n        result = file.read()"
    return in_folder(f"append(at, {fields(rng)!r}, {fields(rng)!r})", reading)


def newest(rng: Random) -> str:
    rows = [fields(rng) for _ in range(3)]
    return in_folder(f"append(at, *{rows!r})", f"result = last(at, {rng.choice((0, 0, 1, 2, 9))})")


CASES: dict[str, dict[str, Callable[[Random], str]]] = {
    "shelf/words": {
        "slug": lambda rng: f"result = slug({words(rng) + rng.choice(('', '!', ' 24/7'))!r})",
        "count_words": lambda rng: f"result = count_words({words(rng, 12)!r})",
        "initials": lambda rng: f"result = initials({words(rng).replace(' - ', '  ')!r})",
        "truncate": truncated,
    },
    "shelf/lines": {
        "wrap": lambda rng: f"result = wrap({words(rng, 15)!r}, {rng.randrange(5, 25)})",
        "number": lambda rng: f"result = number({list(words(rng).split())!r}, {rng.choice((1, 8, 9, 97, 99))})",
        "field": a_field,
        "preview": previewed,
        "decoded": encoded,
    },
    "tally/amounts": {
        "parse": amount,
        "shown": lambda rng: f"result = shown({cents(rng)})",
        "split": lambda rng: f"result = split({abs(cents(rng))}, {rng.randrange(1, 9)})",
        "percent": lambda rng: f"result = percent({cents(rng)}, {rng.choice((5, 7, 19, 20, 25, 50))})",
    },
    "tally/book": {
        "balances": balanced,
        "running": lambda rng: f"result = running({entries(rng)!r}, 'a', {rng.choice((0, cents(rng)))})",
        "between": in_between,
        "largest": lambda rng: f"result = largest({entries(rng)!r}, {rng.randrange(1, 4)})",
        "with_tax": taxed,
        "merged": several_books,
    },
    "almanac/days": {
        "count": lambda rng: f"result = count(*sorted([{day(rng)!r}, {day(rng)!r}]))",
        "add_months": shifted,
        "workdays": working,
        "age": aged,
    },
    "almanac/moments": {
        "moment": lambda rng: f"result = moment({moment(rng)!r}, {rng.choice((0, 60, -300))}).isoformat()",
        "same_day": lambda rng: f"result = [same_day({moment(rng)!r}, {moment(rng)!r}, o) for o in (0, 120, -480, 720)]",
        "minutes": lambda rng: f"result = minutes({moment(rng)!r}, {moment(rng)!r})",
        "overlap": lambda rng: f"result = [overlap({span(rng)!r}, other) for other in {[span(rng) for _ in range(6)]!r}]",
        "merged": lambda rng: f"result = merged({[span(rng) for _ in range(rng.randrange(2, 5))]!r})",
    },
    "settings/layers": {
        "merge": merged_layers,
        "get": lambda rng: f"result = [get({tree(rng)!r}, p, 'none') for p in {[path(rng) for _ in range(8)]!r}]",
        "put": lambda rng: f"t = {tree(rng)!r}\nresult = [put(t, {path(rng)!r}, {rng.randrange(100)}), t]",
        "flatten": lambda rng: f"result = flatten({tree(rng)!r})",
    },
    "settings/texts": {
        "boolean": yes_or_no,
        "parse": lambda rng: f"result = parse({settings_lines(rng)!r})",
        "fill": filled,
        "overrides": lambda rng: f"result = overrides('APP', {variables(rng)!r})",
        "size": lambda rng: f"result = size('{rng.randrange(1, 99)}{rng.choice(('', 'k', 'M', 'G'))}')",
    },
    "depot/lists": {
        "page": lambda rng: f"result = page(list(range({rng.randrange(5, 40)})), {rng.randrange(1, 4)}, {rng.randrange(3, 12)})",
        "pages": page_counts,
        "pieces": lambda rng: f"result = pieces({numbers(rng)!r}, {rng.randrange(1, 5)})",
        "windows": lambda rng: f"result = windows({numbers(rng)!r}, {rng.randrange(1, 4)})",
        "unique": lambda rng: f"result = unique({numbers(rng, 20)!r}, {rng.choice(('None', 'lambda n: n % 3', 'str'))})",
        "grouped": grouped_into,
        "natural": lambda rng: f"result = natural({[f'file{rng.randrange(120)}' for _ in range(6)]!r})",
    },
    "depot/store": {
        "Store": store_steps,
        "Basket": basket_steps,
        "Queue": queue_steps,
        "remembered": called_again,
    },
    "journal/entries": {
        "escape": lambda rng: f"result = escape({field(rng)!r})",
        "unescape": unescaped,
        "written": lambda rng: f"result = written({fields(rng)!r})",
        "read": a_line,
    },
    "journal/files": {
        "append": appended,
        "entries": lambda rng: in_folder(f"append(at, {fields(rng)!r}, {fields(rng)!r})", "result = entries(at)"),
        "last": newest,
        "total": lambda rng: in_folder(f"append(at, *[['a']] * {rng.randrange(1, 9)})", "result = total([at, at, at + 'none'])"),
        "rotate": lambda rng: in_folder(
            f"for n in range({rng.randrange(1, 5)}):\n        append(at, [str(n)])\n        rotate(at, {rng.randrange(2, 4)})",
            "result = sorted((name, entries(os.path.join(folder, name))) for name in os.listdir(folder))",
        ),
        "Reader": opened_often,
    },
}  # fmt: skip
