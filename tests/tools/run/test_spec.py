# SPDX-License-Identifier: Apache-2.0
"""Launch specs: read from comments, inferred, and made into programs that the real compiler takes and that run."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import pytest
from tests.host_cuda import HostProgram, HostRunError

from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.run.build import build_program
from warplens_tools.run.spec.expected import expected_results
from warplens_tools.run.spec.generate import HEADER, program_text
from warplens_tools.run.spec.infer import comment_edit, inferred
from warplens_tools.run.spec.model import Data, PlacedSpec
from warplens_tools.run.spec.read import specs_in
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain

MANY = Path(__file__).parent / "specs/many.cu"
PLANTED = Path(__file__).parents[2] / "planted"

SCALE = """void on_the_host({0} const* x, {0}* y, float alpha, int n)
{{
    for (int i = 0; i < n; ++i) y[i] = {1} * x[i];
}}
/* warplens: launch
shapes = [{{ n = 1000 }}]
grid = "(n + 255) / 256"
block = 256
arguments.x = {{ count = "n" }}
arguments.y = {{ count = "n", fill = "zeros" }}
arguments.alpha = 2.5
reference = "on_the_host"
*/
__global__ void scale(const float* x, float* y, float alpha, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}}
"""


def specs(text: SourceText, name: str = "k.cu") -> tuple[PlacedSpec, ...]:
    return specs_in(text, parse(text, name), name)


def generated(code: str, folder: Path, name: str = "k.cu") -> Path:
    """The unit for the specs of a file that is written into `folder`."""
    path, text = folder / name, SourceText(code)
    path.write_text(code)
    shutil.copy(HEADER, folder)
    unit = folder / f"launch_{name}"
    unit.write_text(program_text(path, text, specs(text, name)))
    return unit


def build(unit: Path, toolchain: Toolchain, out: Path) -> Path:
    workload = Workload(str(unit), str(unit), flags=(f"-I{unit.parent}",))
    return build_program(workload, toolchain=toolchain, arch="sm_90", folder=out)


@pytest.mark.compiler
@pytest.mark.thorough
def test_kernels_of_many_signatures_become_a_program(tmp_path: Path, toolchain: Toolchain) -> None:
    unit = generated(MANY.read_text(), tmp_path, "many.cu")
    names = ["scalars", "templated", "two_dimensional", "structs", "pointers", "no_sizes"]
    assert [k.name for k in parse(SourceText(MANY.read_text()), "many.cu").kernels] == names
    assert all(f"{name}<" in unit.read_text() for name in names)
    build(unit, toolchain, tmp_path / "out")


@pytest.mark.compiler
@pytest.mark.parametrize(
    "name", ["dense_layer", "codon_scores", "template_match", "sensor_frames", "orbit_steps"]
)
@pytest.mark.sampled(1)
def test_inferred_specs_compile(name: str, tmp_path: Path, toolchain: Toolchain) -> None:
    path = PLANTED / f"{name}.cu"
    text = SourceText.read(path)
    model = parse(text, str(path))
    edits = [comment_edit(text, kernel, inferred(text, str(path), kernel)) for kernel in model.kernels]
    build(generated(text.apply(edits).text, tmp_path, path.name), toolchain, tmp_path / "out")


def on_the_cpu(code: str, tmp_path: Path) -> str:
    """Runs the generated program with what it includes put in place."""
    unit = generated(code, tmp_path).read_text()
    own = f'#include "{HEADER.name}"'
    return HostProgram(unit.replace(own, HEADER.read_text()).replace("#include <k.cu>", code)).run()


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.sampled(1)
def test_a_generated_program_compares_with_its_reference(kind: str, tmp_path: Path) -> None:
    out = on_the_cpu(SCALE.format(kind, "alpha"), tmp_path)
    name, array, plain, placed = out.split()
    # the mean of |2.5 x| for x between -1 and 1, and of that times 0.5 to 1
    assert (name, array) == ("scale", "y")
    assert float(plain) == pytest.approx(1250, rel=0.05) and float(placed) == pytest.approx(937, rel=0.06)
    assert on_the_cpu(SCALE.format(kind, "alpha"), tmp_path) == out
    with pytest.raises(HostRunError, match=r"scale: its results are not the reference's: y\[0\] is"):
        on_the_cpu(SCALE.format(kind, "2"), tmp_path)


INFERRED = """constexpr int kBlock = 128;
__constant__ float taps[5];
struct Look { float gain; int steps; };
template <typename T>
__global__ void smooth(const T* in, T* out, Look look, int rows, int columns)
{
    int x = blockIdx.x * kBlock + threadIdx.x;
    if (x < columns) out[blockIdx.y * columns + x] = look.gain * taps[2] * in[blockIdx.y * columns + x];
}
void run(int height, int width)
{
    float *d_in, *d_out;
    size_t bytes = height * width * sizeof(float);
    cudaMalloc(&d_in, bytes);
    cudaMalloc((void**)&d_out, sizeof(float) * height * width);
    dim3 grid((width + kBlock - 1) / kBlock, height);
    smooth<float><<<grid, kBlock>>>(d_in, d_out, Look{1.0f, 2}, height, width);
}
"""


def test_a_first_spec_says_what_the_file_says() -> None:
    text = SourceText(INFERRED)
    (kernel,) = parse(text, "k.cu").kernels
    after = text.apply([comment_edit(text, kernel, inferred(text, "k.cu", kernel))])
    (placed,) = specs(after)
    spec = placed.spec
    assert (placed.kernel, placed.place) == ("smooth", "k.cu:4")
    assert spec.template == ("float",) and spec.block == "kBlock"
    assert spec.grid == ("(columns + kBlock - 1) / kBlock", "rows")
    assert [set(shape) for shape in spec.shapes] == [{"rows", "columns"}] * 2
    counts = {n: d.count if isinstance(d, Data) else d for n, d in spec.arguments.items()}
    assert counts == {"in": "rows * columns", "out": "rows * columns", "look": "{0.75f, 256}"}
    out = spec.arguments["out"]
    assert isinstance(out, Data) and out.fill == "zeros" and set(spec.symbols) == {"taps"}


HEAD = "/* warplens: launch\n"
TAIL = "*/\ntemplate <class T> __global__ void k(T* data, void* raw, float** rows, float alpha, int n) {}\n"
FULL = """template = ["float"]
shapes = [{ n = 4 }]
arguments.data = { count = "n" }
arguments.raw = { count = "n", type = "float" }
arguments.rows = { count = 2, each = "n" }
arguments.alpha = 1
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("grid = \n", "k.cu:2: the launch spec does not parse: invalid value"),
        ("gird = 3\n", "k.cu:1: there is no key gird; did you mean grid?"),
        ("arguments.data = { cuont = 3 }\n", "there is no key cuont in arguments"),
        ("arguments.data = { low = 3 }\n", "missing required field `count`"),
        ('arguments.data = { count = 3, fill = "noise" }\n', "invalid enum value 'noise'"),
        ("launches = 0\n", "launches: expected `int` >= 1"),
        ('kernel = "k"\n', "a comment is for the kernel below it"),
        (FULL.replace("data", "dato"), "the kernel has no parameter dato → did you mean data?"),
        (
            FULL.replace("alpha", "n"),
            "nothing is said of the parameter alpha (float) → add arguments.alpha = …",
        ),
        (FULL.replace('template = ["float"]\n', ""), 'is a template → say template = ["…"] for <T>'),
        (FULL.replace(', type = "float"', ""), 'raw is void* → say what it holds: type = "float"'),
        (FULL.replace(', each = "n"', ""), "rows (float**) points to pointers"),
        (FULL.replace("alpha = 1", "alpha = { count = 1 }"), "alpha (float) is no pointer"),
        (FULL.replace("[{ n = 4 }]", "[{ n = 4 }, { m = 4 }]"), "a shape does not say m, others do"),
        (FULL + "grid = [1, 1, 1, 1]\n", "grid has 4 extents"),
        (FULL + "buffers.more = { count = 1 }\n", "buffers.more does not say its type"),
    ],
)
def test_mistakes_are_said_with_their_place(body: str, said: str) -> None:
    text = SourceText(HEAD + body + TAIL)
    with pytest.raises(InputError) as caught:
        program_text(Path("k.cu"), text, specs(text))
    assert said in f"{caught.value} → {caught.value.remedy}" and str(caught.value).startswith("k.cu:")


def test_a_spec_belongs_to_the_kernel_below_it() -> None:
    two = SourceText(f"{HEAD}{FULL}{TAIL}{HEAD}{FULL}{TAIL.replace('void k', 'void other')}")
    assert [s.kernel for s in specs(two)] == ["k", "other"]
    with pytest.raises(InputError, match=r"k\.cu:\d+: no kernel stands below"):
        specs(SourceText(f"{TAIL[3:]}{HEAD}{FULL}*/\n"))
    with pytest.raises(InputError, match="more than one launch spec"):
        specs(SourceText(f"{HEAD}{FULL}*/\n{HEAD}{FULL}{TAIL}"))
    assert specs(SourceText(TAIL[3:])) == ()


def test_a_program_of_the_file_is_put_aside(tmp_path: Path) -> None:
    code = SCALE.format("float", "alpha") + "int main(int argc, char** argv) { return argc; }\n"
    assert on_the_cpu(code, tmp_path).startswith("scale y ")


PYTHON = """/* warplens: launch
shapes = [{{ n = 1000 }}, {{ n = 999 }}]
grid = "(n + 255) / 256"
arguments.x = {{ count = "n" }}
arguments.y = {{ count = "n", fill = "zeros" }}
arguments.seen = {{ count = 1, fill = "zeros" }}
arguments.alpha = 2.5
reference-python = "{0}"
python = "{1}"
*/
__global__ void scale(const float* x, float2* y, int* seen, float alpha, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = make_float2(alpha * x[i], n);
    if (i == 0) *seen = 7;
}}
"""


def held_to(statements: str, tmp_path: Path, python: str = sys.executable) -> str:
    """What the program prints that is held to what Python computes."""
    code = PYTHON.format(statements, python)
    text = SourceText(code)
    unit = generated(code, tmp_path).read_text()
    unit = unit.replace(f'#include "{HEADER.name}"', HEADER.read_text()).replace("#include <k.cu>", code)
    program = HostProgram(unit)
    folder = tmp_path / "expected" / hashlib.sha256(code.encode()).hexdigest()
    made = expected_results(program._built, parse(text, "k.cu"), specs(text), folder)
    assert made == folder and {p.name for p in made.iterdir()} <= {
        f"0_{shape}-{name}.expected" for shape in (0, 1) for name in ("y", "seen")
    }
    return program.run("--expected", str(made))


@pytest.mark.thorough
def test_a_generated_program_is_held_to_a_reference_in_python(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    right = "y = np.stack([alpha * x, np.full(n, n)], 1)"
    out = held_to(right, tmp_path)
    # what the statements do not speak of is not compared
    assert [line.split()[1] for line in out.splitlines()] == ["y", "seen"] * 2
    assert held_to(right + "; seen[0] = 7", tmp_path) == out
    with pytest.raises(HostRunError, match=r"y\[0\] is .*, the reference says"):
        held_to(right.replace("alpha", "2"), tmp_path)
    with pytest.raises(HostRunError, match=r"seen\[0\] is 7, the reference says 8"):
        held_to(right + "; seen += 8", tmp_path)
    with pytest.raises(HostRunError, match="gives fewer numbers"):
        held_to(right + "[:10]", tmp_path)


def test_a_reference_in_python_that_cannot_run_is_said(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    with pytest.raises(InputError, match=r"k\.cu:1: the reference of scale fails: NameError: name 'z'"):
        held_to("y = z", tmp_path)
    with pytest.raises(MissingToolError, match="no/python was not found"):
        held_to("y = x", tmp_path, python="no/python")
    assert not list((tmp_path / "expected").iterdir())
