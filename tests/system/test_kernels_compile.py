"""The kernels are compiled for an H200, which needs no GPU: what the interpreter takes, the compiler may refuse."""

import os
import subprocess
import sys

import pytest

COMPILE = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sandlot.model.engine import kernels

stored, way = sys.argv[1:]
is_decoding = way != "prompts"
scales = "constexpr" if stored == "bf16" else "*fp32"
shared = {"cache_k": f"*{stored}", "cache_v": f"*{stored}", "scales_k": scales, "scales_v": scales}
none = {"scales_k": None, "scales_v": None} if stored == "bf16" else {}
none |= {"starts": None} if way == "decoding" else {}

def build(kernel, types, constants, warps=4):
    none = {name: None for name in globals()["none"] if name in kernel.arg_names}
    types = shared | types | dict.fromkeys(constants, "constexpr") | dict.fromkeys(none, "constexpr")
    source = ASTSource(fn=kernel, signature={name: types[name] for name in kernel.arg_names}, constexprs=constants | none)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}).asm["ptx"]

halves, numbers = dict.fromkeys(("q", "out", "lse"), "*bf16"), dict.fromkeys(("tables", "lengths", "starts", "tiles"), "*i32")
sizes = {"KV_HEADS": 8, "BLOCK": 64}
types = halves | numbers | {"scale": "fp32", "q_stride": "i32", "table_stride": "i32"}
most = {"decoding": [1], "guesses": [8, 16]}.get(way, [64])  # queries of a tile
for rows in [kernels.decoding_rows(2, each) for each in most]:
    attend = {"GROUP": 2, "WIDTH": 128, "ROWS": rows, "SPLITS": 1, "DECODE": is_decoding, "STAGES": 3, "PRECISION": "tf32"}
    build(kernels._attend, types, sizes | attend, 2 if rows == 16 else 4)
names = ("qkv", "cos", "sin", "q_weight", "k_weight", "q", "k")
rotate = {"HEADS": 16, "HALF": 64, "ROWS": 8, "NORM": True, "KEYS": not is_decoding}
build(kernels._rotate, dict.fromkeys(names, "*bf16") | {"slots": "*i64", "eps": "fp32"}, sizes | rotate)
"""


ADAPTERS = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sandlot.model.engine import adapter_kernels as kernels

model, is_decoding = sys.argv[1], sys.argv[2] == "decoding"
tokens, rows, columns, shares = (16, 16, 512, 2) if is_decoding else (64, 64, 64, 1)
pointers = {"x": f"*{model}", "out": f"*{model}", "middle": "*fp32", "table": "*i64", "tiles": "*i32"}
shared = {"WIDTH": 1024, "MOST": 64, "TOKENS": tokens, "PRECISION": "tf32"}
shrink = shared | {"SHARE": 1024 // shares, "ROWS": rows, "COLUMNS": columns}
expand = shared | {"SHARES": shares, "ROWS": 16, "COLUMNS": 128}
for kernel, sizes in ((kernels._shrink, shrink), (kernels._expand, expand)):
    types = pointers | {"count": "i32", "table_stride": "i64"} | dict.fromkeys(sizes, "constexpr")
    source = ASTSource(fn=kernel, signature={name: types[name] for name in kernel.arg_names}, constexprs=sizes)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ptx"]
"""


@pytest.mark.system
@pytest.mark.parametrize("way", ["decoding", "guesses", "prompts"])
@pytest.mark.parametrize("stored", ["bf16", "i8", "fp8e4nv"])
def test_keys_and_values_are_stored_and_read(stored, way, tmp_path):
    compile_with(COMPILE, [stored, way], tmp_path)


@pytest.mark.system
@pytest.mark.parametrize("way", ["decoding", "prompts"])
@pytest.mark.parametrize("model", ["bf16", "fp32"])
def test_adapters_are_added(model, way, tmp_path):
    compile_with(ADAPTERS, [model, way], tmp_path)


def compile_with(program, given, tmp_path):
    environ = {"TRITON_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, *given], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
