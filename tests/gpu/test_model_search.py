# SPDX-License-Identifier: Apache-2.0
"""A program searched on a card by scripted proposals over real HTTP: look, read, plan, wrong code, repair, verdict.

Where WARPLENS_TRANSCRIPTS names a folder, questions, answers and verdicts are kept there.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("openai")

from tests.server.agent.llm.endpoint import serving
from tests.server.agent.llm.scripted import by_role, code

from warplens.service.model import Choice, chosen, destination_of, give_consent
from warplens.service.optimize import OptimizeOptions, optimize_path
from warplens.service.service import Service
from warplens_cutlass.store.build import build

PROGRAM = Path(__file__).parents[1] / "suite" / "programs" / "transpose.cu"
CORPUS = Path(__file__).parents[1] / "data" / "mini_corpus"
#: Through a padded tile; the first is off by the block's transposed place.
TILED = """\
    constexpr int kTile = 16;
    __shared__ T tile[kTile][kTile + 1];
    int xIndex = blockIdx.x * kTile + threadIdx.x;
    int yIndex = blockIdx.y * kTile + threadIdx.y;
    if (xIndex < width && yIndex < height) tile[threadIdx.y][threadIdx.x] = idata[xIndex + width * yIndex];
    __syncthreads();
    int xOut = blockIdx.{0} * kTile + threadIdx.x;
    int yOut = blockIdx.{1} * kTile + threadIdx.y;
    if (xOut < height && yOut < width) odata[xOut + height * yOut] = tile[threadIdx.x][threadIdx.y];"""


def planned(lines: list[str]) -> str:
    first = next(n for n, line in enumerate(lines, 1) if "int xIndex" in line)
    last = next(n for n, line in enumerate(lines, 1) if n > first and line == "    }")
    anchor = {"id": "A1", "first_line": first, "last_line": last, "change": "through a tile"}
    quoted = {"first_text": lines[first - 1], "last_text": lines[last - 1]}
    idea = "stage a 16 x 16 tile, padded by one column, and write rows of the output"
    fields = {"title": "a padded tile in shared memory", "idea": idea, "answers": ["WL102"], "gain": 2.0}
    return json.dumps(fields | {"anchors": [anchor | quoted]})


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_program_is_searched_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    tree = tmp_path / "cutlass"
    shutil.copytree(CORPUS, tree)
    version = tree / "include" / "cutlass" / "version.h"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n")
    (tree / "include" / "cute").mkdir(exist_ok=True)
    build(tree, name="cutlass")
    path = tmp_path / "work" / "transpose.cu"
    path.parent.mkdir()
    path.write_text(PROGRAM.read_text().replace("8192", "4096"))
    wish = json.dumps({"look": [{"tool": "search", "query": "shared memory layout copy"}]})
    script = by_role(
        planner=[wish, planned(path.read_text().split("\n"))],
        coder=['<look tool="search">copy</look>', code(TILED.format("x", "y"))],
        debugger=["The block's place is not exchanged.\n" + code(TILED.format("y", "x"))],
    )
    with serving(script) as endpoint:
        (path.parent / "warplens.toml").write_text(f'[model]\nbase-url = "{endpoint.url}"\n')
        service, choice = Service(path.parent), Choice("openai", "scripted")
        destination = destination_of(chosen(service.settings_for(path), choice))
        assert destination is not None
        give_consent(destination)
        options = OptimizeOptions(
            kernel="transposeNaive",
            candidates=2,
            seconds=200,
            batch=1,
            model=choice,
            without=("rewrites", "parameters", "templates"),
        )
        result = optimize_path(service, path, options)
        if folder := os.environ.get("WARPLENS_TRANSCRIPTS"):
            kept = {"requests": endpoint.requests, "result": msgspec.to_builtins(result)}
            (Path(folder) / "model_search.json").write_text(json.dumps(kept, indent=1))
    assert [(t.origin, t.state) for t in result.tried] == [
        ("model:planner", "wrong"),
        ("model:debugger", "faster"),
    ]
    assert result.outcome == "faster" and result.proof is not None and "kTile + 1" in result.diff
    contents = [m["content"] for request in endpoint.requests for m in request["messages"]]
    assert any(words.startswith("search ") for words in contents)
    assert any("The original is launched" in words for words in contents)
    assert result.model is not None and result.model.troubles == {}
