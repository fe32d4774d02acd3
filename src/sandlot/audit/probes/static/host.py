"""D18 in code: host resources that concurrent rollouts share: fixed paths, ports, working directory, environment variables.

Writes through `world` go into the rollout's own sandbox, and temporary folders have unique names. Reading is harmless.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.probes.static.code import LIVE, Code, Function, Module
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_HOST_FILES = re.compile(r"(os\.(makedirs|mkdir|remove|unlink|rename|rmdir|replace)|shutil\.\w+|shelve\.open|dbm\.open)")
_HOST_METHODS = frozenset({"write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir"})
_PROCESS = re.compile(
    r"os\.(chdir|putenv|unsetenv|umask|environ\.(update|setdefault|pop|clear))|random\.seed|numpy\.random\.seed"
)
_SERVERS = re.compile(
    r".*\.(bind|listen|start_server|create_server|HTTPServer|ThreadingHTTPServer|TCPServer|serve_forever)|HTTPServer|TCPServer"
)
_OWN = "keep it in `world.state` or in the sandbox, because rollouts share the host"


def _look(code: Code) -> Iterator[Sighting]:
    """No rollout changes shared resources of the host."""
    for function in code.working_in(*LIVE):
        for node in function.nodes():
            yield from _host(function, node)


def _host(function: Function, node: ast.AST) -> Iterator[Sighting]:
    module = function.module
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and module.full_name(node.value) == "os.environ"
    ):
        yield sighting_at(function, node, "D18.process", "sets an environment variable of the whole process", _OWN)
    if not isinstance(node, ast.Call):
        return
    name = module.full_name(node.func)
    if _PROCESS.fullmatch(name):
        yield sighting_at(function, node, "D18.process", f"changes the whole process with `{name}`", _OWN)
    place = _fixed(module, _written(module, node, name))
    if place is not None:
        yield sighting_at(function, node, "D18.path", f"writes `{place}` on the host, the same for every rollout", _OWN)
    if _SERVERS.fullmatch(name) and (port := _port(node)):
        fix = "use port 0, or listen inside the sandbox"
        yield sighting_at(function, node, "D18.port", f"listens on port {port} of the host", fix)


def _written(module: Module, node: ast.Call, name: str) -> ast.expr | None:
    """The host path that a call writes to, if it writes."""
    if name in {"open", "io.open"} and node.args:
        modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
        writes = any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes)
        return node.args[0] if writes else None
    if name == "sqlite3.connect" or _HOST_FILES.fullmatch(name):
        return node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute):
        inner = node.func.value
        opens = node.func.attr == "open" and any(
            isinstance(each, ast.Constant) and isinstance(each.value, str) and set(each.value) & set("wax+") for each in node.args
        )
        if (node.func.attr in _HOST_METHODS or opens) and _is_path(module, inner):
            return inner
    return None


def _is_path(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and node.id in module.values:
        node = module.values[node.id]
    if isinstance(node, ast.BinOp):
        return _is_path(module, node.left)
    return isinstance(node, ast.Call) and module.full_name(node.func).rpartition(".")[2] == "Path"


def _fixed(module: Module, node: ast.expr | None) -> str | None:
    """A path that is the same in every rollout of a task; None if it may vary."""
    if isinstance(node, ast.Name):
        node = module.values.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return None if node.value in {":memory:", ""} or "mode=memory" in node.value else node.value
    if isinstance(node, ast.Call) and module.full_name(node.func).rpartition(".")[2] == "Path" and node.args:
        return _fixed(module, node.args[0])
    if isinstance(node, ast.Call) and module.full_name(node.func) == "tempfile.gettempdir":
        return "/tmp"  # noqa: S108 - only a name
    if isinstance(node, ast.JoinedStr):
        varies = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        return ast.unparse(node)[2:-1] if all(each.endswith("task.id") for each in varies) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = _fixed(module, node.left), _fixed(module, node.right)
        return f"{left}/{right}" if left is not None and right is not None else None
    return None


def _port(node: ast.Call) -> int | None:
    for argument in (*node.args, *(each.value for each in node.keywords)):
        for inner in argument.elts if isinstance(argument, ast.Tuple) else [argument]:
            if isinstance(inner, ast.Constant) and type(inner.value) is int and 0 < inner.value < 65536:
                return inner.value
    return None


PROBE = code_probe("shared-host", ("D18",), _look)
