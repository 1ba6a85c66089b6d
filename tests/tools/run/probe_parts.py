# SPDX-License-Identifier: Apache-2.0
"""The probe's and its tests' C++ sources, compiled as the probe's library is, and programs linked of them."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.kept import digest_of, kept, version_of

from warplens_tools.run.probe import library
from warplens_tools.toolchain.locate import ToolName, resolve_toolchain

PROBE = library.SOURCES
CPP = Path(__file__).parent / "cpp"
HEADERS: tuple[ToolName, ...] = ("cuda_headers", "cupti_headers")


class Parts:
    """The probe's and the tests' C++ sources, each compiled once for its text, and the programs linked of them.

    The probe's are compiled as its library is, which is linked of the same objects.
    """

    #: The simulated kernels contract where they say so, not where the compiler likes.
    OPTIONS = library.SHARING[:-1]
    #: What stands for the card touches every byte again and again; all else takes longer to compile than to run.
    HOT = frozenset({"fake_driver", "simulated"})
    #: How that is compiled: vectors of this machine's, and the same arithmetic.
    FAST = ("-O3", "-march=native")
    STRICT = ("-Wall", "-Wextra", "-Werror")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = digest_of(*sorted(PROBE.glob("*.h")))
        self._all = digest_of(self._own, *sorted(CPP.glob("*.h")))

    def program(self, sources: Sequence[Path], *, cuda: bool = False) -> Path:
        toolchain = resolve_toolchain()
        compiler = toolchain.find("host_compiler")
        if compiler is None:
            pytest.skip("no C++ compiler")
        folders = [tool.path for name in HEADERS if (tool := toolchain.find(name)) is not None]
        if cuda and len(folders) < len(HEADERS):
            pytest.skip("no CUDA or CUPTI headers")
        includes = [f"-I{f}" for f in folders]

        own = library.units([source for source in sources if source.parent == PROBE])
        tests = [
            (
                [*self.OPTIONS, *self.FAST, f"-I{CPP}"]
                if source.stem in self.HOT
                else [*library.SHARING, f"-I{CPP}"],
                source,
            )
            for source in sources
            if source.parent != PROBE
        ]
        probes = [(list(unit.flags), self._written(unit)) for unit in own]

        def compiled(one: tuple[list[str], Path]) -> Path:
            return self.object([str(compiler.path), *one[0], f"-I{PROBE}", *includes], one[1])

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compiled, [*tests, *probes]))
        program = self._folder / sources[0].stem
        subprocess.run([compiler.path, "-pthread", *objects, "-o", program], check=True)
        return program

    def _written(self, unit: library.Unit) -> Path:
        path = self._folder / f"{unit.name}.cpp"
        path.write_text(unit.text)
        return path

    def object(self, command: Sequence[str], source: Path) -> Path:
        headers = self._all if source.parent == CPP else self._own
        machine = _instructions() if "-march=native" in command else ""
        rests_on = digest_of(version_of(command[0]), " ".join(command), machine, headers, source)

        def make(out: Path) -> None:
            shared = self._shared(command) if "-O1" in command else ()
            subprocess.run([*command, *shared, *self.STRICT, "-c", str(source), "-o", str(out)], check=True)

        return kept(f"{source.stem}.o", rests_on, make)

    def _shared(self, command: Sequence[str]) -> tuple[str, ...]:
        """The options that use what most sources include, precompiled as the library does it."""
        toolkit = [word for word in command if word not in (f"-I{CPP}", f"-I{PROBE}")]
        headers = [path for word in toolkit if (path := Path(word.removeprefix("-I")) / "cuda.h").is_file()]
        rests_on = digest_of(version_of(command[0]), " ".join(toolkit), Path(library.__file__), *headers)

        def make(out: Path) -> None:
            library.share_headers(
                toolkit, out.with_suffix(""), lambda words: subprocess.run(words, check=True)
            )

        return ("-include", str(kept("shared.h.gch", rests_on, make).with_suffix("")))

    def on_fake_driver(self, tests: Sequence[str], parts: Sequence[str]) -> Path:
        """A test program, the first of `tests`, of parts of the probe with a driver that is none."""
        sources = [CPP / f"{name}.cpp" for name in (*tests, "fake_driver", "simulated")]
        return self.program([*sources, *(PROBE / f"{name}.cpp" for name in parts)], cuda=True)


def says(program: Path, wanted: str, *arguments: str) -> bool:
    """Whether a test program ends well and says this.

    It draws by seeds of its own: what said it once is not run again until it is another program.
    """

    def make(out: Path) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, wanted), done.stdout + done.stderr
        out.write_text(done.stdout)

    rests_on = digest_of(program, _instructions(), "\0".join(arguments), wanted)
    return kept(f"{program.stem}.said", rests_on, make).read_text() == wanted


@functools.cache
def _instructions() -> str:
    """What this machine's processor knows, as its kernel lists it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
