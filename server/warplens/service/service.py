# SPDX-License-Identifier: Apache-2.0
"""The service: one object per workspace folder, safe to call from several threads."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from warplens import __version__
from warplens.read_settings import load_usable
from warplens.service.build_messages import HEADERS, one_each
from warplens.service.check import BinaryTier, Checked, FileCheck, stages
from warplens.service.cutlass_flags import cutlass_flags
from warplens.service.files import Found, excluded, find, has_kernel, shown
from warplens.service.projects import Projects, compiled_in
from warplens.service.report import FORMAT_VERSION, FileReport, Report
from warplens.service.unknowns import machine_unknowns, not_included, not_run
from warplens.service.usable import with_usable_values
from warplens.settings import Loaded, Settings
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import load_gpu, target_architecture
from warplens_tools.collect import doctor
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import syntax_errors
from warplens_tools.cuda.project import UNIT_SUFFIXES, real_path
from warplens_tools.cuda.surroundings import Surroundings, defines_around, surroundings
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.errors import InputError
from warplens_tools.evidence import TIERS, Tier, Unknown
from warplens_tools.memo import KernelMemo
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags, unit_flags
from warplens_tools.toolchain.locate import Toolchain, ToolchainSettings, resolve_toolchain


class CheckOptions(msgspec.Struct, frozen=True):
    """How far `check` goes. `arch` None means the GPU present, else the configured architecture."""

    #: The highest tier to collect; None means the setting: binary where a compiler is there, else source.
    tier: Tier | None = None
    arch: str | None = None


class Service:
    """Check, profile, optimize, search and doctor for one workspace folder."""

    def __init__(self, root: Path, *, editor: Mapping[str, Any] | None = None) -> None:
        self.root = root
        self._editor = dict(editor or {})
        self._strict = True
        self._lock = threading.Lock()
        self._cache: BinaryCache | None = None
        self._memo = KernelMemo()
        #: Of the files looked at, as their last check found them.
        self._defines: dict[Path, dict[str, str]] = {}
        self._around: dict[Path, Surroundings] = {}
        self._projects = Projects(root)

    def configure(self, editor: Mapping[str, Any]) -> None:
        """Take the editor's settings (camelCase, as `settings.load` reads them); they override the file's.

        From then on what is wrong in a settings file counts as not set: an editor shows findings all the same.
        """
        self._editor = dict(editor)
        self._strict = False

    def forget_builds(self) -> None:
        """Read anew how files are built: settings or a compile_commands.json changed."""
        self._defines.clear()
        self._projects.forget()

    def settings_for(self, path: Path) -> Loaded:
        """The settings that count for a file.

        Raises:
            InputError: a settings file is malformed, or names a path or a check that does not exist.
        """
        root = self.root if path.is_relative_to(self.root) else None
        loaded = with_usable_values(load_usable(path, root=root, editor=self._editor))
        if self._strict and loaded.problems:
            raise InputError(loaded.problems[0].message, remedy="see docs/settings.md")
        return loaded

    def check_text(self, path: Path, text: str | SourceText) -> FileReport:
        """The source tier on a text that may not be saved; milliseconds, runs nothing."""
        loaded = self.settings_for(path)
        source = self._as_built(path, text, loaded)
        gpu = gpu_for(None, loaded.settings)
        around = self._around.get(path)
        return FileCheck(path, source, gpu, loaded.settings, self._memo, around).source().report

    def syntax_errors(self, path: Path, text: str | SourceText) -> int:
        """In how many places the parser cannot read a text: a fraction of what `check_text` costs, before it."""
        return len(syntax_errors(parse_tree(self._as_built(path, text, self.settings_for(path)))))

    def _as_built(self, path: Path, text: str | SourceText, loaded: Loaded) -> SourceText:
        defines = self._defines.get(path)
        if defines is None:
            # the project's headers count from the first check of the saved file on: reading them takes its time
            defines = self._defines[path] = self._flags(path, loaded).defines
        return (SourceText(text) if isinstance(text, str) else text).compiled_with(defines)

    def build_defines(self, path: Path, unit: Path, loaded: Loaded) -> dict[str, str]:
        """The macros that `path` is compiled with in `unit`: of the command line, and of the project's headers."""
        flags = self._flags(unit, loaded)
        project = self._projects.of(path, loaded, flags.include_dirs)
        defines = self._defines[path] = {**defines_around(path, unit, project), **flags.defines}
        return defines

    def _flags(self, unit: Path, loaded: Loaded) -> CompileFlags:
        try:
            return unit_flags(
                unit,
                configured=loaded.settings.flags,
                root=loaded.bound,
                database=loaded.settings.database,
            )
        except InputError:  # the check of the saved file says so
            return CompileFlags((), "")

    def surroundings(self, path: Path, model: SourceModel, unit: Path, loaded: Loaded) -> Surroundings:
        """What other files of the project say of the launches of a file's kernels."""
        flags = self._flags(unit, loaded)
        project = self._projects.of(path, loaded, flags.include_dirs)
        found = self._around[path] = surroundings(model, project, flags.defines)
        return found

    def check_file(self, path: Path, options: CheckOptions, *, task: Task = UNATTENDED) -> Report:
        """One saved file through the tiers asked for.

        Raises:
            As `stages`.
        """
        return self._report([self._check(path, options, task)])

    def check_stream(
        self, name: Path, data: bytes, options: CheckOptions, *, task: Task = UNATTENDED
    ) -> Report:
        """A text that is in no file: settings and flags are those of a file `name`, which need not exist.

        Raises:
            As `check_file`.
        """
        text = SourceText.decode(data, name=str(name))
        return self._report([self._check(name, options, task, text)])

    def check(
        self, paths: Sequence[Path], options: CheckOptions, *, task: Task = UNATTENDED, jobs: int = 1
    ) -> Report:
        """Files and folders, recursively, `jobs` at once. A file that cannot be read is reported, the others are
        checked.

        Raises:
            As `check_file`; InputError also where a path does not exist, or the only file cannot be read.
        """
        found = self.files(paths, options.arch)
        files = found.files

        def one(number: int, task: Task) -> Checked:
            try:
                return self._check(files[number], options, task)
            except InputError as error:
                if len(files) == 1:
                    raise
                return _unreadable(files[number], error)

        done = in_order(one, len(files), jobs, task)
        report = self._report(done)
        return msgspec.structs.replace(report, files=tuple(one_each(report.files)), skipped=found.skipped)

    def tier_to_run(self, options: CheckOptions) -> Tier | None:
        """The tier to collect for which programs are run; None where what is asked for needs none."""
        settings = self.settings_for(self.root).settings
        tier = options.tier or (None if settings.tier == "auto" else settings.tier)
        return None if tier is None or TIERS.index(tier) <= TIERS.index("binary") else tier

    def files(self, paths: Sequence[Path], arch: str | None = None) -> Found:
        """The files that `paths` mean, at least one.

        Raises:
            InputError: a path does not exist, there is no file, or the settings or `arch` are not usable.
        """
        settings = self.settings_for(self.root).settings
        gpu_for(arch, settings)
        found = find(paths, settings.exclude)
        found = msgspec.structs.replace(found, files=self._with_headers(found.files))
        if not found.files:
            named = ", ".join(map(str, paths))
            why = dict.fromkeys(skipped.why for skipped in found.skipped)
            remedy = f"{len(found.skipped)} were skipped by {' and '.join(why)}" if why else ""
            raise InputError(f"no CUDA file in {named}", remedy=remedy)
        return found

    def _with_headers(self, files: Sequence[Path]) -> tuple[Path, ...]:
        """The files, each unit followed by those of its project's headers that hold kernels; each file once."""
        listed = {real_path(path): path for path in files}
        found: dict[Path | None, Path] = {}
        for path in files:
            found.setdefault(real_path(path), path)
            loaded = self.settings_for(path.absolute())
            if path.suffix in HEADERS:
                continue
            project = self._projects.of(
                path.absolute(), loaded, self._flags(path.absolute(), loaded).include_dirs
            )
            for header in project.headers_of(path.absolute()):
                real = real_path(header)
                if (
                    real not in listed
                    and not excluded(header, loaded.settings.exclude)
                    and has_kernel(header)
                ):
                    found.setdefault(real, shown(header))
        return tuple(found.values())

    def unreadable(self, path: Path, error: InputError) -> Report:
        """The answer for a file that cannot be read, beside others that can."""
        return self._report([_unreadable(path, error)])

    def doctor(self) -> tuple[doctor.Check, ...]:
        """What this machine has, what is missing or at odds, and how to get it."""
        return tuple(doctor.diagnose(self.toolchain(self.settings_for(self.root).settings)))

    def toolchain(self, settings: Settings) -> Toolchain:
        """The compiler and its companions for these settings."""
        return resolve_toolchain(ToolchainSettings(cuda_home=settings.cuda_path))

    def _check(
        self,
        path: Path,
        options: CheckOptions,
        task: Task,
        text: SourceText | None = None,
    ) -> Checked:
        """The last stage of a check."""
        (checked,) = self.stages(path, options, text=text, early=False, task=task)
        return checked

    def stages(
        self,
        path: Path,
        options: CheckOptions,
        *,
        text: SourceText | None = None,
        early: bool = True,
        task: Task = UNATTENDED,
    ) -> Iterator[Checked]:
        """One saved file through the tiers asked for: with `early` each stage as it is known, else the last.

        `text` stands for the file, which then need not exist.

        Raises:
            InputError: the file cannot be read, or the settings or the architecture are not usable.
            MissingToolError: the binary tier was asked for by name and there is no compiler.
            CancelledError: `task` was stopped.
        """
        loaded = self.settings_for(path.absolute())
        settings = loaded.settings
        task.say(f"reading {path.name}", None)
        overlay, text = (None, SourceText.read(path)) if text is None else (text.text, text)
        binary = wants_binary(options, settings, self.toolchain(settings))
        unit = self.unit(path.absolute(), loaded)
        file = self.opened(path, text, unit, loaded, gpu_for(options.arch, settings))
        if not binary:
            yield _with_reason(file.source(), path, options, settings)
            return
        if unit is None:
            yield file.source().lacking(not_included(path))
            return
        task.say(f"compiling {unit.name}", None)
        tier = self.binary_tier(file, unit, loaded, options.arch)
        tier = msgspec.structs.replace(tier, overlay=overlay if unit == path.absolute() else None)
        asked = options.tier or settings.tier
        unrun = () if asked in ("auto", "source", "binary") else (not_run(path, asked),)
        for checked in stages(file, tier, early=early, task=task):
            yield checked.lacking(*unrun) if checked.complete else checked

    def opened(self, path: Path, text: SourceText, unit: Path | None, loaded: Loaded, gpu: Gpu) -> FileCheck:
        """The check of a file as it is compiled in `unit`, with what other files say of it."""
        whole, compiled = path.absolute(), unit or path.absolute()
        text = text.compiled_with(self.build_defines(whole, compiled, loaded))
        file = FileCheck(path, text, gpu, loaded.settings, self._memo)
        model = msgspec.structs.replace(file.model, path=str(whole))
        return file.beside(self.surroundings(whole, model, compiled, loaded))

    def binary_tier(self, file: FileCheck, unit: Path, loaded: Loaded, arch: str | None) -> BinaryTier:
        """What the binary tier of a file is collected with; `arch` as asked for, None for the settings' own."""
        settings = loaded.settings
        return BinaryTier(
            unit=unit,
            toolchain=self.toolchain(settings),
            flags=unit_flags(
                unit,
                configured=settings.flags or cutlass_flags(unit, file.model),
                root=loaded.bound,
                database=settings.database,
            ),
            arch=target_architecture(
                arch or settings.architecture or file.gpu.arch, arch_specific=file.model.needs_arch_specific
            ),
            cache=self._binary_cache(),
            timeout=settings.compile_seconds,
        )

    def unit(self, path: Path, loaded: Loaded) -> Path | None:
        """The translation unit a file is compiled in: itself, or for a header and for a part of a unity build one that
        includes it."""
        if path.suffix not in HEADERS and path.suffix not in UNIT_SUFFIXES:
            return path
        project = self._projects.of(path, loaded)
        if path.suffix in UNIT_SUFFIXES:
            return compiled_in(path, project, loaded)
        return next(iter(project.units_including(path)), None)

    def _binary_cache(self) -> BinaryCache:
        with self._lock:
            self._cache = self._cache or BinaryCache()
            return self._cache

    def _report(self, done: Sequence[Checked]) -> Report:
        unknown = [u for checked in done for u in checked.unknown]
        unknown += machine_unknowns()
        return Report(
            version=FORMAT_VERSION,
            tool=f"warplens {__version__}",
            files=tuple(checked.report for checked in done),
            unknown=tuple(dict.fromkeys(unknown)),
        )


def in_order(one: Callable[[int, Task], Checked], count: int, jobs: int, task: Task) -> list[Checked]:
    """What `one` gives for 0 to `count` - 1, several at once. The first error ends the rest, and not `task`."""
    if min(count, jobs) < 2:
        return [one(number, task.step(number, count)) for number in range(count)]
    with task.branch() as all_of_it, ThreadPoolExecutor(min(count, jobs), "warplens-check") as pool:
        futures = [pool.submit(one, number, all_of_it.step(number, count)) for number in range(count)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            all_of_it.token.cancel()
            raise


def wants_binary(options: CheckOptions, settings: Settings, toolchain: Toolchain) -> bool:
    """Whether the binary tier is to be collected.

    Raises:
        MissingToolError: it was asked for by name and there is no compiler.
    """
    asked = options.tier or (None if settings.tier == "auto" else settings.tier)
    if asked is None:
        return toolchain.find("nvcc") is not None and toolchain.find("host_compiler") is not None
    if TIERS.index(asked) < TIERS.index("binary"):
        return False
    toolchain.require("nvcc")
    toolchain.require("host_compiler")
    return True


def gpu_for(arch: str | None, settings: Settings) -> Gpu:
    """The GPU to judge against: the architecture asked for or configured, else the one present, else sm_90.

    Raises:
        InputError: the architecture is not known.
    """
    return _gpu(arch or settings.architecture)


@functools.lru_cache(maxsize=16)
def _gpu(arch: str) -> Gpu:
    return load_gpu(arch or None)


def _with_reason(checked: Checked, path: Path, options: CheckOptions, settings: Settings) -> Checked:
    """The source tier, with the reason where more was wanted."""
    if options.tier == "source" or settings.tier == "source":
        return checked
    why = "no CUDA compiler was found"
    remedy = "run `warplens setup toolchain`; `warplens doctor` shows what was looked at"
    return checked.lacking(Unknown(f"binary tier of {path.name}", why, remedy))


def _unreadable(path: Path, error: InputError) -> Checked:
    return Checked(
        FileReport(str(path), (), ()), (Unknown(str(path), str(error), error.remedy, failed=True),)
    )
