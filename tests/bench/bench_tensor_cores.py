# SPDX-License-Identifier: Apache-2.0
"""Naive products of bfloat16 matrices, versions of them with CuTe's wgmma, and cuBLAS, on this machine's card, as JSON.

    CUTLASS_PATH=CHECKOUT python tests/bench/bench_tensor_cores.py [--python PYTHON_WITH_TORCH] [--json FILE]
        [--seconds 240]

`tests/gpu/tensor_cores` holds each kernel as people first write it and the proposal for it. The judge's verdict comes
from `warplens optimize KERNEL.cu --edited PROPOSAL.cu`. Beside it all three are called by one process, alternating:
right or not against products in float, and teraflops per second of graphs of calls, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from warplens_tools.arch.load import present_gpus
from warplens_tools.run.gpu_lock import gpu_lock

FOLDER = Path(__file__).parents[1] / "gpu" / "tensor_cores"
KERNELS = ("gemm", "wgrad")

#: Takes a folder with libraries; prints for each size what is right and teraflops per second.
COMPARE = r"""
import ctypes, json, statistics, sys, torch
from pathlib import Path
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
here = Path(sys.argv[1])
known = {p.stem: ctypes.CDLL(str(p)).launch for p in here.glob("*.so")}
def pointer(t): return ctypes.c_void_p(t.data_ptr())
def stream(): return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
def graph_of(call, calls):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call(); call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls): call()
    return graph
def seconds(graph, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(); graph.replay(); end.record(); end.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls
def measure(ways, flops, rounds=9):
    counts = {name: (1 if name == "input" else 20) for name in ways}
    graphs = {name: graph_of(call, counts[name]) for name, call in ways.items()}
    taken = {name: [] for name in ways}
    for _ in range(rounds):
        for name, graph in graphs.items():
            if name == "input" and len(taken[name]) >= 2: continue
            taken[name].append(seconds(graph, counts[name]))
    return {name: round(flops / statistics.median(times) / 1e12, 1) for name, times in taken.items()}
def error(got, want):
    return float((got.double() - want).norm() / want.norm())
rows = []
def show(**row):
    rows.append(row); print(json.dumps(row), flush=True)
def gemm(M, N, K, timed=True):
    A, B = torch.randn(M, K, device="cuda").bfloat16(), torch.randn(K, N, device="cuda").bfloat16()
    C = {name: torch.full((M, N), float("nan"), device="cuda").bfloat16() for name in ("input", "proposal", "cublas")}
    sizes = [ctypes.c_int(x) for x in (M, N, K)]
    def ours(name, to): known[name](pointer(A), pointer(B), pointer(C[to]), *sizes, stream())
    ways = {"input": lambda: ours("gemm", "input"), "proposal": lambda: ours("gemm_wgmma", "proposal"),
            "cublas": lambda: torch.matmul(A, B, out=C["cublas"])}
    for way in ways.values(): way()
    torch.cuda.synchronize()
    want = A.double() @ B.double() if M * N * K <= 1 << 33 else C["input"].double()
    row = {"kernel": "gemm", "size": [M, N, K], "relative_error": {n: error(c, want) for n, c in C.items()}}
    if timed: row["tflops"] = measure(ways, 2.0 * M * N * K)
    show(**row)
def wgrad(tokens, D, F, experts, timed=True):
    share = 1.5 + 0.5 * (2 * torch.rand(experts) - 1)
    offsets = [0, *(int(x + 0.5) for x in (share.cumsum(0) / share.sum() * tokens).tolist())]
    offsets[-1] = tokens
    X, dY = torch.randn(tokens, D, device="cuda").bfloat16(), torch.randn(tokens, F, device="cuda").bfloat16()
    at = torch.tensor(offsets, dtype=torch.int32, device="cuda")
    dW = {name: torch.full((experts, D, F), float("nan"), device="cuda") for name in ("input", "proposal", "cublas")}
    sizes = [ctypes.c_int(x) for x in (experts, D, F)]
    def ours(name, to): known[name](pointer(X), pointer(dY), pointer(at), pointer(dW[to]), *sizes, stream())
    def cublas():
        for e in range(experts):
            a, b = offsets[e], offsets[e + 1]
            torch.mm(X[a:b].t(), dY[a:b], out_dtype=torch.float32, out=dW["cublas"][e])
    ways = {"input": lambda: ours("wgrad", "input"), "proposal": lambda: ours("wgrad_wgmma", "proposal"),
            "cublas": cublas}
    for way in ways.values(): way()
    torch.cuda.synchronize()
    want = torch.stack([X[a:b].double().t() @ dY[a:b].double() for a, b in zip(offsets, offsets[1:])])
    row = {"kernel": "wgrad", "size": [tokens, D, F, experts], "offsets": offsets,
           "relative_error": {n: error(c, want) for n, c in dW.items()}}
    if timed: row["tflops"] = measure(ways, 2.0 * tokens * D * F)
    show(**row)
def each(what, *sizes):
    for size in sizes:
        try: what(*size)
        except Exception as failure: show(kernel=what.__name__, size=list(size), failed=repr(failure)[:300])
each(gemm, (2048,) * 3, (4096,) * 3, (8192,) * 3, (1000, 1000, 344, False), (300, 640, 72, False),
     (1000, 520, 333, False), (77, 131, 64, False))
each(wgrad, (4096, 1024, 2048, 8), (16384, 2048, 4096, 8), (1000, 200, 129, 5, False))
"""


def library(name: str, folder: Path) -> str:
    """Build one version as a library; nvcc's complaint if it does not build."""
    include = ["-I", str(Path(os.environ["CUTLASS_PATH"]) / "include")] if name.endswith("_wgmma") else []
    command = ["nvcc", "-O3", "-std=c++17", "-arch=sm_90a", "--expt-relaxed-constexpr", "-DNDEBUG", *include]
    command += [
        "-shared",
        "-Xcompiler",
        "-fPIC",
        str(FOLDER / f"{name}.cu"),
        "-o",
        str(folder / f"{name}.so"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr[-2000:] if done.returncode else ""


def judged(name: str, seconds: float) -> dict[str, Any]:
    """What the judge says of the proposal."""
    command = [sys.executable, "-m", "warplens", "optimize", str(FOLDER / f"{name}.cu"), "--kernel", name]
    command += ["--edited", str(FOLDER / f"{name}_wgmma.cu"), "--format", "json"]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")
        return {"failed": f"longer than {seconds} s", "said": said[-2000:]}
    wall = round(time.monotonic() - started, 1)
    if not done.stdout.strip():
        return {"failed": done.stderr[-2000:], "seconds": wall}
    return {**json.loads(done.stdout), "seconds": wall}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(6) as pool:
        folder = Path(made)
        verdicts = {name: pool.submit(judged, name, given.seconds) for name in KERNELS}
        versions = [version for name in KERNELS for version in (name, f"{name}_wgmma")]
        failed = dict(zip(versions, pool.map(lambda v: library(v, folder), versions), strict=True))
        script = folder / "compare.py"
        script.write_text(COMPARE)
        with gpu_lock(present_gpus()[0].uuid, "comparing with cuBLAS"):
            compared = subprocess.run(
                [given.python, str(script), str(folder)], capture_output=True, text=True, check=False
            )
        result = {
            "command": "python tests/bench/bench_tensor_cores.py",
            "compared": [json.loads(line) for line in compared.stdout.splitlines() if line.startswith("{")],
            "failed": {name: why for name, why in failed.items() if why},
            "said": compared.stderr[-2000:],
        }
        if given.json is not None:
            given.json.write_text(json.dumps(result, indent=1) + "\n")
        result["judged"] = {name: verdict.result() for name, verdict in verdicts.items()}
    text = json.dumps(result, indent=1) + "\n"
    if given.json is not None:
        given.json.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
