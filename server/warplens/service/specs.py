# SPDX-License-Identifier: Apache-2.0
"""Launch specs of a file, and the workload that is generated from them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from warplens.settings import Loaded
from warplens_tools.collect.cache import cache_folder, work_folder
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.encoded import EncodedText
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.build import build_program
from warplens_tools.run.spec.expected import expected_results
from warplens_tools.run.spec.generate import HEADER, program_text
from warplens_tools.run.spec.infer import comment_edit, inferred
from warplens_tools.run.spec.model import PlacedSpec
from warplens_tools.run.spec.read import specs_in
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain


def specs_of(path: Path, loaded: Loaded, kernel: str = "") -> tuple[PlacedSpec, ...]:
    """The launch specs of a file, from its comments and the settings; of `kernel` alone where one is named.

    Raises:
        InputError: one does not parse, or two are for the same kernel.
    """
    text = SourceText.read(path)
    configured = [spec for spec in loaded.settings.launch if _names(spec.source, path, loaded)]
    if not configured and "warplens:" not in text.text:
        return ()
    model = parse(text, str(path))
    found = list(specs_in(text, model, path.name))
    place = f"{PurePath(loaded.file).name or 'the settings'}, [[launch]]"
    for spec in configured:
        name = _kernel(model, spec.kernel, path, place)
        if any(other.kernel == name for other in found):
            raise InputError(
                f"{place}: {path.name} has another launch spec of {name}", remedy="keep one of them"
            )
        found.append(PlacedSpec(spec, name, place))
    wanted = model.kernel(kernel) if kernel else None
    return tuple(s for s in found if not kernel or (wanted is not None and s.kernel == wanted.qualified_name))


def _kernel(model: SourceModel, name: str, path: Path, place: str) -> str:
    if name:
        kernel = model.kernel(name)
        return kernel.qualified_name if kernel is not None else name
    if len(model.kernels) != 1:
        names = ", ".join(k.qualified_name for k in model.kernels) or "none"
        raise InputError(f"{place} does not say which kernel of {path.name}", remedy=f"it has {names}")
    return model.kernels[0].qualified_name


def _names(source: str, path: Path, loaded: Loaded) -> bool:
    if not path.is_relative_to(loaded.root):
        return path.as_posix() == source
    relative = PurePath(path.relative_to(loaded.root))
    return bool(source) and (relative.match(source) or str(relative) == source)


def generated(workload: Workload, specs: Sequence[PlacedSpec]) -> Workload:
    """The workload of the program that these specs of its source describe. The program's text lies in the cache,
    where equal specs find it again.

    Raises:
        InputError: a spec does not fit its kernel, or the cache cannot be written.
    """
    source = Path(workload.source)
    text = program_text(source, SourceText.read(source), specs)
    header = HEADER.read_text("utf-8")
    key = hashlib.sha256(f"{source}\0{header}\0{text}".encode()).hexdigest()[:32]
    folder = cache_folder() / "launches" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / HEADER.name, header)
        # messages and processes show the unit by name
        unit = folder / f"launch_{source.stem}.cu"
        _put(unit, text)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    return msgspec.structs.replace(
        workload,
        unit=str(unit),
        # an angle include finds an edited file before the user's: flags come after what replaces it
        flags=(*workload.flags, f"-I{source.parent}"),
        directory=str(folder),
        every_shape=workload.every_shape or any(len(s.spec.shapes) > 1 for s in specs),
        compile_commands="",
        generated=True,
    )


def expecting(
    workload: Workload, path: Path, loaded: Loaded, kernel: str, arch: str, *, task: Task = UNATTENDED
) -> Workload:
    """The workload, held to what its specs' references in Python give; as it is where there are none.

    Raises:
        as `build_program` and `expected_results`.
    """
    specs = specs_of(path, loaded, kernel) if workload.generated else ()
    codes = [f"{s.spec.python}\0{s.spec.reference_python}" for s in specs]
    if not any(s.spec.reference_python for s in specs):
        return workload
    key = hashlib.sha256("\1".join(codes).encode()).hexdigest()[:16]
    # not in the working directory, of which each run gets a copy
    folder = cache_folder() / "expected" / f"{Path(workload.unit).parent.name}-{key}"
    if not folder.is_dir():
        task.say(f"building {path.name} to compute its references")
        with work_folder() as work:
            program = build_program(
                workload, toolchain=resolve_toolchain(), arch=arch, folder=work / "p", task=task
            )
            expected_results(program, parse(SourceText.read(path), str(path)), specs, folder, task=task)
    return msgspec.structs.replace(workload, arguments=(*workload.arguments, "--expected", str(folder)))


def _put(path: Path, text: str) -> None:
    """Write a file whole; one that is there with the same text stays as it is."""
    if path.is_file() and path.read_text("utf-8") == text:
        return
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)


def first_specs(
    path: Path, loaded: Loaded, kernel: str = ""
) -> tuple[EncodedText, list[TextEdit], list[str]]:
    """A first launch spec as a comment above every kernel that has none, or above `kernel`: the file as it is, the
    edits, and the kernels they are for.

    Raises:
        InputError: the file or the kernel is not there, or has a spec already.
    """
    before = EncodedText.read(path)
    text = SourceText.decode(before.data, name=str(path))
    model = parse(text, str(path))
    chosen = without_spec(model, specs_of(path, loaded), path, kernel)
    edits = [comment_edit(text, k, inferred(text, str(path), k)) for k in chosen]
    return before, edits, [k.qualified_name for k in chosen]


def without_spec(model: SourceModel, specs: Sequence[PlacedSpec], path: Path, kernel: str) -> list[Kernel]:
    """The kernels that have no spec, or `kernel`.

    Raises:
        InputError: there is none, or it has one.
    """
    if not model.kernels:
        raise InputError(f"{path.name} defines no kernel")
    places = {spec.kernel: spec.place for spec in specs}
    if not kernel:
        chosen = [k for k in model.kernels if k.qualified_name not in places and not k.macro]
        if not chosen:
            raise InputError(
                f"every kernel of {path.name} has a launch spec", remedy="edit it where it stands"
            )
        return chosen
    found = model.kernel(kernel)
    if found is None:
        names = ", ".join(k.qualified_name for k in model.kernels)
        raise InputError(f"{path.name} has no kernel {kernel}", remedy=f"it has {names}")
    if found.macro:
        raise InputError(f"{kernel} is written by the macro {found.macro}, above which no comment can stand")
    if found.qualified_name in places:
        place = places[found.qualified_name]
        raise InputError(
            f"{found.qualified_name} has a launch spec already, at {place}", remedy="edit it there"
        )
    return [found]
