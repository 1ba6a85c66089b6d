# SPDX-License-Identifier: Apache-2.0
"""What a command does on bad input: the cases of the test, and of the table in docs/command-line.md."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

KERNEL = "__global__ void scale(float *x, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
KERNEL += (
    "    if (i < n) x[i] = x[i] * 2.0f;\n}\nvoid f(float *x, int n) { scale<<<n / 256, 256>>>(x, n); }\n"
)


class Case(NamedTuple):
    """One situation. `command` is a line for a shell in a folder that holds k.cu and what `prepare` puts there."""

    about: str
    command: str
    status: int
    says: str
    prepare: Callable[[Path], object] = lambda _folder: None
    #: "compiler": needs nvcc; "no gpu": speaks of a machine without one; "linux": needs /dev/full or /proc.
    needs: str = ""


def settings(text: str) -> Callable[[Path], object]:
    """A warplens.toml."""
    return lambda folder: (folder / "warplens.toml").write_text(text)


def _ignored(folder: Path) -> None:
    (folder / "made").mkdir()
    (folder / "made" / "x.cu").write_text(KERNEL)
    (folder / "sub").mkdir()
    (folder / "sub" / ".gitignore").write_text("*.cu\n")
    (folder / "sub" / "gen.cu").write_text(KERNEL)


def _database(folder: Path, entries: object) -> None:
    (folder / "compile_commands.json").write_text(
        entries if isinstance(entries, str) else json.dumps(entries)
    )


def _binary(folder: Path) -> None:
    (folder / "b.cu").write_bytes(b"\x7fELF\0\0")


def _read_only(folder: Path) -> None:
    (folder / "k.cu").write_text(KERNEL.replace("2.0f", "2.0"))
    (folder / "k.cu").chmod(0o444)


CASES = (
    # paths
    Case("A path that is not there", "warplens check nowhere.cu", 2, "nowhere.cu does not exist"),
    Case("A folder without CUDA files", "warplens check empty", 2, "no CUDA file in empty", lambda f: (f / "empty").mkdir()),
    Case("A folder of which `.gitignore` leaves nothing", "warplens check sub", 2, "1 were skipped by .gitignore", _ignored),
    Case("A path that is neither file nor folder", "warplens check pipe.cu", 2, "neither a file nor a folder", lambda f: os.mkfifo(f / "pipe.cu")),
    Case("A binary file", "warplens check b.cu", 2, "b.cu is a binary file, not CUDA source", _binary),
    Case("One file of several cannot be read: the others are checked", "warplens check k.cu b.cu --tier source", 2, "failed: b.cu", _binary),
    Case("A text in UTF-16, which nvcc does not read", "warplens check k.cu", 2, "save the file as UTF-8",
         lambda f: (f / "k.cu").write_bytes(b"\xff\xfe" + KERNEL.encode("utf-16-le")), "compiler"),
    Case("A file that is no CUDA source", "warplens check .gitignore", 2, ".gitignore is not a CUDA file", lambda f: (f / ".gitignore").write_text("*.o\n")),
    Case("A system file", "warplens check /etc/passwd", 2, "/etc/passwd is not a CUDA file"),
    Case("An empty path", 'warplens check "$NOTHING"', 2, "an empty word stands where a path or a value is meant"),
    Case("A link to itself in a folder: skipped by name, the others are checked", "warplens check . --tier source", 0, "skipped by the system (Too many levels of symbolic links): l.cu",
         lambda f: (f / "l.cu").symlink_to("l.cu")),
    Case("The name of standard input is in no folder", "warplens check - --stdin-filename no/x.cu --tier binary < k.cu", 0, "no/x.cu", needs="compiler"),
    # options
    Case("A command that does not exist", "warplens chekc k.cu", 2, "did you mean `warplens check`?"),
    Case("An option that does not exist", "warplens check --nonsense", 2, "Unknown option: --nonsense"),
    Case("A value that an option does not take", "warplens check k.cu --tier fast", 2, "--tier: fast is not one of source, binary, timing, counters, timeline"),
    Case("A value that --fail-on does not take", "warplens check k.cu --fail-on foo", 2, "--fail-on: foo is not one of error, warning, information, hint, never"),
    Case("A number that is none", "warplens search gemm --limit few", 2, "--limit: few is not a whole number"),
    Case("A file left out", "warplens optimize", 2, "FILE is missing"),
    Case("A folder that is no exchange", "warplens evaluate .", 2, "holds no candidates"),
    Case("A folder for candidates that holds something else", "warplens optimize k.cu --ask .", 2, "is not empty",
         lambda f: (f / "k.cu").write_text(KERNEL + "int main() { return 0; }\n")),
    Case("A launch spec for no kernel", "warplens spec k.cu --kernel other", 2, "k.cu has no kernel other"),
    Case("A launch spec that is there already", "warplens spec k.cu", 2, "every kernel of k.cu has a launch spec",
         lambda f: (f / "k.cu").write_text("/* warplens: launch\n*/\n" + KERNEL)),
    Case("A launch spec that does not parse", "warplens optimize k.cu", 2, "k.cu:2: the launch spec does not parse",
         lambda f: (f / "k.cu").write_text("/* warplens: launch\ngrid =\n*/\n" + KERNEL)),
    Case("A PyTorch task that is not there", "warplens task none.py k.cu", 2, "none.py does not exist"),
    Case("Cards and a cluster", "warplens optimize k.cu --cards 1 --cluster local", 2, "--cards and --cluster exclude each other"),
    Case("A file too many", "warplens optimize k.cu l.cu", 2, "l.cu is one word too many"),
    Case("The beginning of codes, to select", "warplens check k.cu --select WL1 --tier source", 0, "0 findings"),
    Case("The beginning of no code", "warplens check k.cu --select WL7", 2, "there is no check wl7"),
    Case("Architectures with a comma between, one not known", "warplens check k.cu --arch sm_80,sm_42", 2, "sm_42"),
    Case("A comment that ignores a check that does not exist", "warplens check k.cu --tier source", 0, "what to ignore at k.cu:1: there is no check wl9999",
         lambda f: (f / "k.cu").write_text("// warplens: ignore WL9999: why\n" + KERNEL)),
    Case("An architecture that is not known", "warplens check k.cu --arch sm_42", 2, "sm_42"),
    Case("An architecture that is no architecture", "warplens search gemm --arch foo", 2, "foo is no architecture"),
    Case("A check that does not exist, to select", "warplens check k.cu --select WL9999", 2, "there is no check wl9999"),
    Case("A check that does not exist, to ignore", "warplens check k.cu --ignore shared-bank-conflict", 2, "did you mean shared-bank-conflicts?"),
    Case("A check that does not exist, to explain", "warplens explain WL9999", 2, "there is no check WL9999"),
    Case("A baseline that is not there", "warplens check k.cu --baseline old.json", 2, "cannot read the baseline old.json"),
    Case("A baseline that is none", "warplens check k.cu --baseline k.cu", 2, "k.cu is no answer of `warplens check --format json`"),
    Case("A baseline that is the source: it is not advised to be overwritten", "warplens check k.cu --baseline k.cu", 2, "--format json > warplens-baseline.json"),
    Case("No edit to show", "warplens check k.cu --diff --tier source", 0, "no finding has an edit"),
    Case("A patch in another format", "warplens check k.cu --diff --format json", 2, "--diff prints a patch and nothing else"),
    Case("A patch that is not to be printed", "warplens check k.cu --diff -q", 2, "--diff prints a patch and nothing else"),
    Case("No results to search for", "warplens search gemm --limit 0", 2, "--limit 0 leaves nothing to show"),
    Case("The settings of a path that is not there", "warplens config show nope.cu", 2, "nope.cu does not exist"),
    Case("An index to update where there is none", "WARPLENS_HOME=none warplens index update", 0, "nothing is indexed: run `warplens setup cutlass`"),
    Case("Watching and writing at once", "warplens check k.cu --watch --fix", 2, "--watch only looks"),
    Case("Writing into standard input", "warplens check - --fix < k.cu", 2, "standard input cannot be fixed"),
    Case("Standard input beside files", "warplens check - k.cu < k.cu", 2, "standard input is checked alone"),
    # settings
    Case("Settings that do not parse", "warplens check k.cu", 2, "warplens.toml", settings("a = = 1")),
    Case("A setting that does not exist", "warplens check k.cu", 2, "there is no setting archtecture; did you mean architecture?", settings("archtecture = 'sm_90'")),
    Case("A setting of another type", "warplens check k.cu", 2, "architecture takes a text, not a whole number", settings("architecture = 90")),
    Case("A check that does not exist, in the settings", "warplens check k.cu", 2, "ignore: there is no check WL999", settings('ignore = ["WL999"]')),
    Case("A toolkit folder that is not there", "warplens check k.cu", 2, "cuda-path: there is no /opt/nowhere", settings('cuda-path = "/opt/nowhere"')),
    Case("A compilation database that is not there", "warplens check k.cu", 2, "compile-commands: there is no out/cc.json", settings('compile-commands = "out/cc.json"')),
    Case("A program's folder that is not there", "warplens check k.cu", 2, "program.directory of *.cu: there is no folder",
         settings('[[program]]\nsource = "*.cu"\ndirectory = "runs"')),
    Case("A compilation database that does not parse", "warplens check k.cu", 2, "regenerate it", lambda f: _database(f, "{"), "compiler"),
    Case("A compile flag that nvcc does not know", "warplens check k.cu", 2, "nvcc does not know", settings('flags = ["--no-such-flag"]'), "compiler"),
    # what the machine lacks
    Case("The code does not compile: a finding, the text is checked", "warplens check k.cu", 1, "WL901 not-compiled",
         lambda f: (f / "k.cu").write_text(KERNEL.replace("2.0f;", "2.0f")), "compiler"),
    Case("A header that no include path leads to", "warplens check k.cu", 1, "compile-commands", lambda f: (f / "k.cu").write_text('#include <nowhere.h>\n' + KERNEL), "compiler"),
    Case("Optimizing what does not compile, without a GPU", "warplens optimize k.cu", 2, "does not compile",
         lambda f: (f / "k.cu").write_text(KERNEL.replace("2.0f;", "2.0f") + "int main() { f(nullptr, 256); }\n"), "compiler no gpu"),
    Case("A cache folder that cannot be written", "WARPLENS_CACHE=/proc/none warplens check k.cu", 2, "set WARPLENS_CACHE to a folder that can", needs="compiler"),
    Case("No compiler, and nobody asked for its tier", "PATH=/nowhere WARPLENS_HOME=none warplens check k.cu", 0, "no CUDA compiler was found"),
    Case("No compiler for the tier asked for", "PATH=/nowhere WARPLENS_HOME=none warplens check k.cu --tier binary", 2, "compiler was found"),
    Case("No disassembler: said by name, the rest stands", "WARPLENS_HOME=none warplens check k.cu", 0, "nvdisasm was not found", needs="compiler no nvdisasm"),
    Case("Counters asked for without a GPU", "warplens check k.cu --tier counters", 2, "there is no CUDA GPU in this machine", needs="no gpu"),
    Case("The sanitizer asked for without a GPU", "warplens check k.cu --sanitize", 2, "failed: compute-sanitizer on k.cu", needs="no gpu"),
    Case("Profiling without a GPU or a report", "warplens profile k.cu", 2, "there is no CUDA GPU in this machine", needs="no gpu"),
    Case("Optimizing without a GPU: edits are offered, unproven", "warplens optimize k.cu", 2, "nothing can be measured",
         lambda f: (f / "k.cu").write_text(KERNEL + "int main() { f(nullptr, 256); }\n"), "no gpu"),
    Case("Optimizing a file whose program is not known", "warplens optimize k.cu", 2, "k.cu has no main", needs="no gpu"),
    Case("A report that is not there", "warplens profile k.cu --import none.ncu-rep", 2, "there is no report none.ncu-rep"),
    # streams
    Case("Standard output on a full disk", "warplens check k.cu --tier source > /dev/full", 2, "the answer could not be written: No space left on device", needs="linux"),
    Case("Standard output closed", "warplens check k.cu --tier source >&-", 2, "standard output is closed"),
    Case("A reader that has enough", "warplens explain | head -1", 0, "WL1"),
    Case("A reader that has enough of an answer: the status is that of the check", "warplens check k.cu --tier source --format json --fail-on hint | head -1", 1, "{",
         lambda f: (f / "k.cu").write_text(KERNEL.replace("2.0f", "2.0") + "// filler\n" * 9 + KERNEL.replace("scale", "again") * 120)),
    Case("A reader that has enough of what optimizing says", "warplens optimize k.cu | head -1", 2, "nothing can be measured",
         lambda f: (f / "k.cu").write_text(KERNEL + "int main() { f(nullptr, 256); }\n"), "no gpu"),
    Case("A terminal that knows ASCII only", "PYTHONIOENCODING=ascii warplens check k.cu --tier source", 0, "->"),
    # files
    Case("Fixing a file that is read-only", "warplens check k.cu --tier source --fix-all", 2, "cannot write k.cu: it is read-only", _read_only),
    Case("A settings file where there is one", "warplens config init", 2, "warplens.toml is there already", settings("")),
    Case("Searching before anything is indexed", "WARPLENS_HOME=none warplens search gemm < /dev/null", 2, "nothing is indexed yet"),
    Case("Code to search for that is not there", "warplens search --like nowhere.cu", 2, "cannot read nowhere.cu"),
)  # fmt: skip


def table() -> str:
    """The page's table."""
    rows = [
        f"| {c.about} | `{c.command}` | {c.status} | {c.says.replace('|', chr(92) + '|')} |" for c in CASES
    ]
    return "| Situation | Command | Exit | It says |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
