# SPDX-License-Identifier: Apache-2.0
"""Whether the built host object is the baseline's, beside the tokens it is made of; with the real compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.compiled import unit_file
from tests.patience import PATIENCE
from tests.server.measure.build.host_texts import ALLOWED, BASE, BODY, MAIN, together

from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gate import HostGate
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_object import HostObject, differences, read_object
from warplens.measure.build.host_split import HostSplit
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.errors import InputError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import WITHOUT_SPECIAL_FUNCTIONS
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler

CHOOSING = "template <class T> int chosen"
MORE = """\
namespace { struct Hidden { int a; }; __device__ int seen; int hidden(Hidden h) { return h.a; } }
template <class T> struct Trait { enum { rank = 1 }; };
static int first(long x) { return static_cast<int>(x); }
template <class T> int chosen(T x) { return first(x); }
inline int shared(int x) { return x + Trait<int>::rank; }
static int called() {
    auto fourfold = [](int z) { return 2 * z; };
    int* kept = new int(fourfold(4)), found = *kept;
    delete kept;
    return chosen(2) + shared(3) + hidden({found});
}
"""
TEXT = BASE.replace(MAIN, MORE + MAIN).replace(
    "return 0;", 'return called() * 0 + (steps > 1e9 ? std::puts("x") : 0);'
)

#: What the tokens of host code do not show, with what the object then says. Those of one text say different things.
TRICKS = (
    {
        "another value": ("int steps = 3", "int steps = 4", "makes of steps"),
        "another number among the constants": ("1e9", "2e9", "makes of main"),
        "a changed inline function": ("x + Trait", "x - Trait", "makes of shared(int)"),
    },
    {
        "another overload": (
            CHOOSING,
            "__device__ int first(int x) { return 0; }\n" + CHOOSING,
            "makes of int chosen<int>(int)",
        ),
        "another specialisation": (
            "inline int shared",
            "template <> struct Trait<int> { enum { rank = 2 }; };\ninline int shared",
            "makes of shared(int)",
        ),
        "a constructor by an attribute": (
            MAIN,
            "__attribute__((constructor)) void early() { steps = 1; }\n" + MAIN,
            "adds .init_array",
        ),
        "a destructor by an attribute": (
            MAIN,
            "__attribute__((destructor)) static void late() { steps = 1; }\n" + MAIN,
            "adds .fini_array",
        ),
        "a symbol that is resolved by a function": (
            MAIN,
            'extern "C" { static void* which() { return (void*)&div_up; } }\n'
            'extern "C" void later() __attribute__((ifunc("which")));\n' + MAIN,
            "adds the symbol later",
        ),
        "an alias": (
            MAIN,
            'extern "C" { int aimed(int x) { return x; } }\n'
            'extern "C" int second(int) __attribute__((alias("aimed")));\n' + MAIN,
            "defines second",
        ),
        "a variable for each thread": (MAIN, "thread_local int own = 3;\n" + MAIN, "adds .tdata.own"),
        "a name of the C library's": (
            MAIN,
            'extern "C" __device__ int rand(void) noexcept { return 4; }\n' + MAIN,
            "defines rand",
        ),
    },
    {
        "a static object": (
            MAIN,
            "static struct S { S() { steps = 1; } } made;\n" + MAIN,
            "adds .init_array",
        ),
        "an operator": (
            MAIN,
            "void* operator new(size_t n) { return nullptr; }\n" + MAIN,
            "operator new(unsigned long), which the program takes from elsewhere",
        ),
        "another section": (
            MAIN,
            '__attribute__((section("other"))) int beside = 3;\n' + MAIN,
            "adds other to",
        ),
    },
)
#: Beside a constant that is gone, as its name is another.
HONEST = {
    "a device function in the unnamed namespace": (
        MAIN,
        "namespace { __device__ int more() { return 2; } }\n" + MAIN,
    ),
    "a kernel more": (MAIN, "template <int N> __global__ void other(int* x) { *x = N; }\n" + MAIN),
    "lines more before all": ("#include <cstdio>", "\n\n// more\n#include <cstdio>"),
}
#: What compiles for many seconds.
SLOW = ("cooperative groups",)


class Site:
    """One baseline, split and compiled once."""

    def __init__(self, folder: Path) -> None:
        unit = unit_file(TEXT)
        toolchain = resolve_toolchain()
        self.flags = flags_of(Workload(str(unit), str(unit), flags=WITHOUT_SPECIAL_FUNCTIONS))
        self.folder = folder / "build"
        self.split = HostSplit(
            unit, unit, toolchain=toolchain, flags=self.flags, arch="sm_90", timeout=PATIENCE
        )
        self.gate: HostGate = self.split.gate(TEXT, self.folder / "own", die_with_parent, UNATTENDED)
        self.baseline: HostObject = self.object(self.gate, self.folder / "own")
        self.gates = HostGates(self.split, TEXT, self.folder, Fence(toolchain, self.flags, MeasureSettings()))

    def object(self, gate: HostGate, folder: Path) -> HostObject:
        return self.split.compiled(folder, gate.side.host, (), die_with_parent, UNATTENDED)

    def differences(self, text: str) -> list[str]:
        """By the object alone, whatever the tokens say."""
        folder = self.folder / "candidate"
        side = self.split.split(text, folder, die_with_parent, UNATTENDED, self.gate.side)
        back = self.gate.put_back(side)
        built = self.split.compiled(folder, side.host, back, die_with_parent, UNATTENDED)
        return list(differences(self.baseline, built))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if resolve_toolchain().find("nvcc") is None:
        pytest.skip("no nvcc")
    with tempfile.TemporaryDirectory() as place:
        yield Site(Path(place))


@pytest.mark.parametrize("tricks", TRICKS, ids=range(len(TRICKS)))
def test_the_object_shows_what_tokens_hide(site: Site, tricks: dict[str, tuple[str, str, str]]) -> None:
    """Several in one text, which compiles as long as one: the object names each by itself."""
    text = TEXT
    for old, new, _ in tricks.values():
        assert old in text
        text = text.replace(old, new, 1)
    told = site.differences(text)
    missed = [name for name, (_, _, said) in tricks.items() if not any(said in one for one in told)]
    assert not missed, told


@pytest.mark.thorough
def test_whatever_tokens_allow_makes_the_same_object_together(site: Site) -> None:
    """One build for all: an edit that changed the object would change this one."""
    names = [name for name in ALLOWED if name not in SLOW]
    text = together(TEXT, names)
    assert site.gates.why_not_built(text, site.folder / "candidate", UNATTENDED) == ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", ALLOWED)
def test_whatever_tokens_allow_makes_the_same_object(site: Site, name: str) -> None:
    assert (
        site.gates.why_not_built(TEXT.replace(*ALLOWED[name], 1), site.folder / "candidate", UNATTENDED) == ""
    )


def test_honest_candidates_make_the_same_object(site: Site) -> None:
    text = TEXT.replace("kWidth", "kWide")
    for old, new in HONEST.values():
        assert old in text
        text = text.replace(old, new, 1)
    assert site.gates.why_not_built(text, site.folder / "candidate", UNATTENDED) == ""


def test_the_same_text_makes_the_same_object(site: Site) -> None:
    assert site.differences(TEXT) == []
    assert site.differences(TEXT.replace(BODY, BODY + BODY)) == []


def test_device_functions_may_be_added_to_a_program_that_never_exits(tmp_path: Path) -> None:
    """The stubs that cudafe++ writes for them call `exit`, and nothing calls the stubs."""
    quiet = "__global__ void k(float* x) { *x = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n"
    unit = unit_file(quiet)
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    flags = flags_of(Workload(str(unit), str(unit), flags=WITHOUT_SPECIAL_FUNCTIONS))
    split = HostSplit(unit, unit, toolchain=toolchain, flags=flags, arch="sm_90", timeout=PATIENCE)
    gates = HostGates(split, quiet, tmp_path / "build", Fence(toolchain, flags, MeasureSettings()))
    text = "__device__ float one() { return 1; }\n" + quiet.replace("= 1", "= one()")
    assert gates.why_not_built(text, tmp_path / "build/candidate", UNATTENDED) == ""
    calls = quiet.replace("int main", "static int never() { return system(0); }\nint main")
    assert gates.why_not_built(calls, tmp_path / "build/other", UNATTENDED) != ""


FIRST, SECOND = "const int kA = 4, kB = 8;", "constexpr float kX = 1.f, kY = 2.f;"
#: What may stand for both.
OTHERWISE = (
    f"const int kA = 16, kB = 8;\n{SECOND}",
    f"const int kA = 4, kB = 8, kC = 3, kD = kC * kA;\n{SECOND}",
    f"const int kA = 16;\nconst int kB = 8;\n{SECOND}",
    f"const int kB = 8, kC = 2;\nconstexpr int kA = 3 * kC;\n{SECOND}",
    f"{SECOND.replace('1.f', '3.f')}\n{FIRST}",
    f"{FIRST}\nconstexpr float kX = 1.f;",
    f"{FIRST}\nconstexpr float kX = 1.f, kZ = kX + 1.f;",
)


def with_constants(declared: Iterable[str]) -> str:
    """A program that launches a kernel with each of these constants, in a namespace of their own."""
    body = (
        "__global__ void k(float* x) { x[threadIdx.x] = kA * kX; }\nvoid run(float* p) { k<<<kB, kA>>>(p); }"
    )
    scopes = [f"namespace n{at} {{\n{one}\n{body}\n}}\n" for at, one in enumerate(declared)]
    calls = " ".join(f"n{at}::run(p);" for at in range(len(scopes)))
    return f"{''.join(scopes)}int main() {{ float* p; cudaMalloc(&p, 4096); {calls} return 0; }}\n"


def test_declarations_of_several_constants_may_be_changed_joined_and_parted(tmp_path: Path) -> None:
    baseline = with_constants([f"{FIRST}\n{SECOND}"] * len(OTHERWISE))
    unit = unit_file(baseline)
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    flags = flags_of(Workload(str(unit), str(unit), flags=WITHOUT_SPECIAL_FUNCTIONS))
    split = HostSplit(unit, unit, toolchain=toolchain, flags=flags, arch="sm_90", timeout=PATIENCE)
    gates = HostGates(split, baseline, tmp_path / "build", Fence(toolchain, flags, MeasureSettings()))
    assert gates.why_not_built(with_constants(OTHERWISE), tmp_path / "build/other", UNATTENDED) == ""


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(InputError, match="host object"):
        read_object(b"\x7fELF\x02\x01 and no more")
