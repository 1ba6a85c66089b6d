# SPDX-License-Identifier: Apache-2.0
"""ptxas as the host card's toolkit has it: the real one's cubin, with the host's code of its kernels in a section.

    python attach.py REAL_PTXAS ARGUMENT...

Runs where a build may neither read the project nor write outside of its folder: it lies with all it needs in the
toolkit's own folder, and uses the standard library alone.
"""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SECTION = ".host_card"
#: As the driver is compiled: no contraction but where PTX asks for it, no aliasing by type. -O1 is what a kernel of
#: thousands of lines is still compiled with in seconds.
FLAGS = (
    *(
        "-std=c++17",
        "-O1",
        "-march=native",
        "-w",
        "-fPIC",
        "-shared",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
    ),
    *("-fvisibility=hidden", "-fno-exceptions", "-fno-stack-protector", "-fcf-protection=none"),
)


def with_section(image: bytes, name: str, data: bytes) -> bytes:
    """A 64-bit ELF file with one more section, whose contents, name and header are put at the end."""
    head = list(struct.unpack_from("<16sHHIQQQIHHHHHH", image))
    offset, size, count, names = head[6], head[11], head[12], head[13]
    headers = [list(struct.unpack_from("<IIQQQQIIQQ", image, offset + i * size)) for i in range(count)]
    strings = image[headers[names][4] : headers[names][4] + headers[names][5]]
    out = bytearray(image)
    out += b"\0" * (-len(out) % 16)
    at_data = len(out)
    out += data + b"\0" * (-len(data) % 16)
    at_strings = len(out)
    renamed = strings + name.encode() + b"\0"
    out += renamed + b"\0" * (-len(renamed) % 16)
    headers[names][4:6] = [at_strings, len(renamed)]
    headers.append([len(strings), 1, 0, 0, at_data, len(data), 0, 0, 16, 0])
    head[6], head[12] = len(out), count + 1
    for header in headers:
        out += struct.pack("<IIQQQQIIQQ", *header)
    struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, *head)
    return bytes(out)


def host_code(ptx: str) -> bytes:
    """A shared object of the kernels; where there is none, the text that says why."""
    sys.path.insert(0, str(HERE))
    from tests.host_card.ptx import PtxError, translate

    try:
        code = translate(ptx)
    except PtxError as error:
        return str(error).encode()
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        source.write_text(code)
        compiler = os.environ.get("HOST_CARD_CXX", "g++")
        include = HERE / "tests" / "host_card" / "cpp"
        command = [compiler, *FLAGS, f"-I{include}", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"the translated kernels do not compile: {done.stderr[:2000]}".encode()
        return made.read_bytes()


def main(words: list[str]) -> int:
    """Do as ptxas, then add the section to what it wrote."""
    real, arguments = words[0], words[1:]
    with subprocess.Popen([real, *arguments]) as compiler:
        ptx = next((Path(w) for w in arguments if w.endswith(".ptx") and Path(w).is_file()), None)
        output = next(
            (Path(b) for a, b in itertools.pairwise(arguments) if a in ("-o", "--output-file")), None
        )
        code = host_code(ptx.read_text()) if ptx is not None and output is not None else b""
        status = compiler.wait()
    if status == 0 and output is not None and output.is_file() and code:
        output.write_bytes(with_section(output.read_bytes(), SECTION, code))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
