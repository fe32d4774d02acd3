"""The kernels are compiled for an H200, which needs no GPU: what the interpreter takes, the compiler may refuse."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, traceback, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sandlot.model.engine import adapter_kernels, kernels

def build(kernel, types, constants, warps=4):
    source = ASTSource(fn=kernel, signature={name: types[name] for name in kernel.arg_names}, constexprs=constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}).asm["ptx"]

def attention(stored, way):
    is_decoding = way != "prompts"
    scales = "constexpr" if stored == "bf16" else "*fp32"
    shared = {"cache_k": f"*{stored}", "cache_v": f"*{stored}", "scales_k": scales, "scales_v": scales}
    unused = {"scales_k": None, "scales_v": None} if stored == "bf16" else {}
    unused |= {"starts": None} if way == "decoding" else {}

    def built(kernel, types, constants, warps=4):
        none = {name: None for name in unused if name in kernel.arg_names}
        types = shared | types | dict.fromkeys(constants, "constexpr") | dict.fromkeys(none, "constexpr")
        build(kernel, types, constants | none, warps)

    halves, numbers = dict.fromkeys(("q", "out", "lse"), "*bf16"), dict.fromkeys(("tables", "lengths", "starts", "tiles"), "*i32")
    sizes = {"KV_HEADS": 8, "BLOCK": 64}
    types = halves | numbers | {"scale": "fp32", "q_stride": "i32", "table_stride": "i32"}
    most = {"decoding": [1], "guesses": [8, 16]}.get(way, [64])  # queries of a tile
    for rows in [kernels.decoding_rows(2, each) for each in most]:
        attend = {"GROUP": 2, "WIDTH": 128, "ROWS": rows, "SPLITS": 1, "DECODE": is_decoding, "STAGES": 3, "PRECISION": "tf32"}
        built(kernels._attend, types, sizes | attend, 2 if rows == 16 else 4)
    names = ("qkv", "cos", "sin", "q_weight", "k_weight", "q", "k")
    rotate = {"HEADS": 16, "HALF": 64, "ROWS": 8, "NORM": True, "KEYS": not is_decoding}
    built(kernels._rotate, dict.fromkeys(names, "*bf16") | {"slots": "*i64", "eps": "fp32"}, sizes | rotate)

def adapters(model, way):
    tokens, rows, columns, shares = (16, 16, 512, 2) if way == "decoding" else (64, 64, 64, 1)
    pointers = {"x": f"*{model}", "out": f"*{model}", "middle": "*fp32", "table": "*i64", "tiles": "*i32"}
    shared = {"WIDTH": 1024, "MOST": 64, "TOKENS": tokens, "PRECISION": "tf32"}
    shrink = shared | {"SHARE": 1024 // shares, "ROWS": rows, "COLUMNS": columns}
    expand = shared | {"SHARES": shares, "ROWS": 16, "COLUMNS": 128}
    for kernel, sizes in ((adapter_kernels._shrink, shrink), (adapter_kernels._expand, expand)):
        types = pointers | {"count": "i32", "table_stride": "i64"} | dict.fromkeys(sizes, "constexpr")
        build(kernel, types, sizes)

for word in sys.argv[1:]:
    what, *given = word.split()
    problem = ""
    try:
        globals()[what](*given)
    except Exception:
        problem = traceback.format_exc()
    print(json.dumps([word, problem]))
"""
ATTENTION = [f"attention {stored} {way}" for stored in ("bf16", "i8", "fp8e4nv") for way in ("decoding", "guesses", "prompts")]
ADAPTERS = [f"adapters {model} {way}" for model in ("bf16", "fp32") for way in ("decoding", "prompts")]

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def problems(tmp_path_factory) -> dict[str, str]:
    """What the compiler says of each, one after another in a process that does not interpret kernels, as this one does."""
    folder = str(tmp_path_factory.mktemp("triton"))
    environ = {"TRITON_CACHE_DIR": folder, "HOME": folder, "PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, *ATTENTION, *ADAPTERS]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("what", ATTENTION)
def test_keys_and_values_are_stored_and_read(what, problems):
    assert problems[what] == ""


@pytest.mark.parametrize("what", ADAPTERS)
def test_adapters_are_added(what, problems):
    assert problems[what] == ""
