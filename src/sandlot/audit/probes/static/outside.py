"""D17 in code: clocks, random numbers, the network, machine settings, and orders that differ between processes.

Random numbers from a `Random` that the function is given, or from `world.rng`, belong to the task. Monotonic clocks and golden
solutions are not reported.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.finding import Severity
from sandlot.audit.probes.static.code import LIVE, Code, Function, Module, Part, method_called
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_CLOCKS = re.compile(
    r"time\.(time|time_ns|localtime|gmtime|ctime|asctime)|(datetime\.)?datetime\.(now|today|utcnow)|(datetime\.)?date\.today"
)
_ZONES = re.compile(r"(datetime\.)?(datetime|date)\.fromtimestamp|time\.(mktime|localtime)")
"""These use the machine's time zone unless one is given."""
_CHANCE = re.compile(
    r"random\.(random|randint|randrange|choice|choices|sample|shuffle|uniform|gauss|getrandbits|SystemRandom|normalvariate)"
    r"|secrets\.\w+|uuid\.uuid[14]|os\.urandom"
    r"|numpy\.random\.(rand|randn|randint|random|choice|shuffle|permutation|uniform|normal)"
)
_SEEDABLE = re.compile(r"random\.Random|numpy\.random\.(default_rng|RandomState)")
"""Seeded by the machine if called without arguments."""
_NETWORK = re.compile(
    r"requests\.(get|post|put|head|request|Session|session)|httpx\.(get|post|put|request|stream|Client|AsyncClient)"
    r"|urllib\.request\.(urlopen|urlretrieve)|socket\.(socket|create_connection|gethostbyname|getaddrinfo)"
    r"|aiohttp\.(ClientSession|request)|http\.client\.HTTPS?Connection|urllib3\.PoolManager"
)
_SETTINGS = re.compile(
    r"os\.(getenv|environ\.get|getlogin|cpu_count|getpid|uname)|locale\.(getlocale|setlocale|currency|format_string|str)"
    r"|platform\.\w+|socket\.gethostname|getpass\.getuser"
)
_LISTINGS = re.compile(r"os\.(listdir|scandir|walk)|glob\.(glob|iglob)")
_LISTING_METHODS = frozenset({"iterdir", "rglob"})
_ORDERED_BY = frozenset({"list", "tuple", "enumerate", "iter", "next", "zip"})

_PARTS = (*LIVE, Part.TASKS)


def _look(code: Code) -> Iterator[Sighting]:
    """Nothing depends on the clock, chance, the network or the machine."""
    for function in code.working_in(*_PARTS):
        sets = _sets(code, function)
        inner = _sorted_nodes(function.node)
        for node in function.nodes():
            yield from _call(function, function.module, node, inner)
            yield from _order(function, node, sets, inner)
    for module in code.imported():
        inner = _sorted_nodes(module.tree)
        for statement in module.tree.body:
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not _is_main(statement):
                for node in ast.walk(statement):
                    yield from _call(module, module, node, inner)


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _call(place: Function | Module, module: Module, node: ast.AST, inner: set[int]) -> Iterator[Sighting]:
    if not isinstance(node, ast.Call):
        return
    name = module.full_name(node.func)
    if _CLOCKS.fullmatch(name) and not node.args:
        yield sighting_at(place, node, "D17.clock", f"reads the clock with `{name}`", "put the date into the task's data")
    elif _ZONES.fullmatch(name) and len(node.args) == 1 and not node.keywords:
        fix = "give the time zone: `datetime.fromtimestamp(x, UTC)`"
        yield sighting_at(place, node, "D17.zone", f"uses the machine's time zone with `{name}`", fix)
    elif _CHANCE.fullmatch(name) or (_SEEDABLE.fullmatch(name) and not node.args and not node.keywords):
        title = f"draws random numbers from `{name}`, which is not seeded per task"
        yield sighting_at(place, node, "D17.chance", title, "take it from the task's data or from `world.rng`")
    elif _NETWORK.fullmatch(name):
        fix = "record the answers and replay them"
        yield sighting_at(place, node, "D17.network", f"uses the network with `{name}`", fix)
    elif _SETTINGS.fullmatch(name):
        fix = "put the value into the environment's data"
        yield sighting_at(place, node, "D17.machine", f"reads a setting of the machine with `{name}`", fix, Severity.LOW)
    elif name == "hash" and node.args and not isinstance(node.args[0], ast.Constant):
        fix = "use `hashlib` or `zlib.crc32`, which give the same everywhere"
        yield sighting_at(place, node, "D17.hash", "uses `hash()`, which differs between processes", fix)
    elif (_LISTINGS.fullmatch(name) or method_called(node) in _LISTING_METHODS) and id(node) not in inner:
        title = "uses a folder's files in the order that the disk gives"
        yield sighting_at(place, node, "D17.order", title, "sort them", Severity.LOW)


def _sorted_nodes(tree: ast.AST) -> set[int]:
    """Ids of all nodes inside a call for which order does not matter: `sorted`, `len`, `set`, `sum`, `any`, ..."""
    careless = {"sorted", "len", "set", "frozenset", "sum", "min", "max", "any", "all"}
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in careless:
            found |= {id(inner) for argument in node.args for inner in ast.walk(argument)}
    return found


# -- sets --------------------------------------------------------------------------------------------------------------


def _sets(code: Code, function: Function) -> set[str]:
    """Names that only hold sets of texts in this function; sets of numbers keep their order."""
    held = function.assigned()
    outside = {node.id for node in function.nodes() if isinstance(node, ast.Name)} - held.keys()
    held |= {name: [value] for name in outside if (value := code.value_of(function.module, name)) is not None}
    return {name for name, values in held.items() if all(_is_set(value, set()) for value in values)}


def _is_set(node: ast.AST, sets: set[str]) -> bool:
    match node:
        case ast.Set():
            return not all(isinstance(each, ast.Constant) and isinstance(each.value, int | float) for each in node.elts)
        case ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return bool(node.args)
        case ast.Name():
            return node.id in sets
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.Sub() | ast.BitXor()):
            return _is_set(node.left, sets) or _is_set(node.right, sets)
        case _:
            return False


def _order(function: Function, node: ast.AST, sets: set[str], inner: set[int]) -> Iterator[Sighting]:
    """Uses of a set's order: a list, a text, its first element, tasks made from it."""
    severity = Severity.HIGH if Part.TASKS in function.marked else Severity.LOW
    fix = "sort it first: the order of a set of texts differs between processes"
    if isinstance(node, ast.For) and Part.TASKS in function.marked and _is_set(node.iter, sets):
        yield sighting_at(function, node, "D17.order", "makes tasks in the order of a set", fix, severity)
    if not isinstance(node, ast.Call) or not node.args or id(node) in inner or not _is_set(node.args[0], sets):
        return
    makes = isinstance(node.func, ast.Name) and node.func.id in _ORDERED_BY
    joins = method_called(node) in {"join", "choice", "sample", "extend"}
    if makes or joins:
        yield sighting_at(function, node, "D17.order", "depends on the order of a set", fix, severity)


PROBE = code_probe("outside-world", ("D17",), _look)
