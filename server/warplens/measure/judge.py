# SPDX-License-Identifier: Apache-2.0
"""The judge: opens a workload, measures its baseline, judges candidates against it.

    with Judge(workload, kernel="ns::scale") as judge:
        baseline = judge.baseline()
        verdicts = judge.judge(candidates, on_verdict=tell)
        proof = judge.confirm(best)

The order of the gate: edit allowed, builds, resources legal, runs within its limit, right, faster than
the noise of the same visit; `confirm` adds the rebuilt program and fresh processes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Generator, Sequence
from types import TracebackType

import msgspec

from warplens.measure.build.ahead import Ahead
from warplens.measure.build.candidates import Builder, Built
from warplens.measure.build.geometry import NoGeometry
from warplens.measure.build.own_geometry import as_written
from warplens.measure.build.ruled_geometry import by_its_rule
from warplens.measure.build.unit import Unit
from warplens.measure.build.waves import in_waves
from warplens.measure.card import card_of
from warplens.measure.confirm import Confirmation, confirm
from warplens.measure.costs import BUILD
from warplens.measure.coverage import Coverage, candidate_twin, kernel_twin
from warplens.measure.folders import judge_folder
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.further import FurtherJudge
from warplens.measure.kernel.shapes import judge_shapes, others_of
from warplens.measure.kernel.sifting import visited
from warplens.measure.kernel.target import KernelShare
from warplens.measure.kernel.twin import Marking, Twin
from warplens.measure.kernel.visits import VisitResult
from warplens.measure.placed import build_beside, placed
from warplens.measure.program.device_work import probe_tracer
from warplens.measure.program.outside import OutsideJudge
from warplens.measure.program.whole import ProgramRun
from warplens.measure.session import Baseline, PreparedWorkload, Session, open_workload
from warplens.measure.turn import Turn
from warplens.measure.verdict import Candidate, Verdict
from warplens.measure.whole_gain import ProgramGain
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import target_architecture
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import UNTOLD_GRID
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

__all__ = ["Baseline", "Confirmation", "Judge", "KernelShare", "ProgramGain", "ProgramRun"]


class Judge:
    """Judges candidates for one kernel of one workload.

    Holds the GPU lock only while the GPU is in use; edits of host code, where the settings let them be judged, are
    built under it too. Not safe for use from several threads at once; a task may be stopped from any.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        kernel: str = "",
        arch: str = "",
        device: int = 0,
        settings: MeasureSettings | None = None,
        toolchain: Toolchain | None = None,
    ) -> None:
        """`kernel`: plain, qualified or mangled name, "" for the hottest that the source defines.

        `arch`: e.g. "sm_90"; "" means the device's own. `device` is the ordinal as the CUDA driver counts.
        """
        self.workload = workload
        self.settings = settings or MeasureSettings()
        self._kernel, self._arch, self._device = kernel, arch, device
        self._toolchain = toolchain or resolve_toolchain()
        self._folder = judge_folder()
        self._opened: PreparedWorkload | None = None
        self._outside: OutsideJudge | None = None
        self._further: FurtherJudge | None = None
        self._twin: Twin | Unknown | None = None
        #: Geometries are taken from the rule of a text's launch, where it has one, until one does not hold.
        self._by_rule = True
        self._ahead: Ahead[Unit | str] = Ahead()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the build folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These are likely judged first: they are compiled while the baseline is measured. From any thread."""
        self._ahead.expect(candidates)

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        """Build the program, run it as it is, survey its kernels; repeated calls answer from memory.

        Raises:
            MissingToolError: no GPU, driver, compiler or CUPTI.
            CompileError: the program does not build.
            InputError: it fails, or never launches the kernel, or its launch cannot be visited.
            TimeLimitError, CancelledError: as named.
        """
        return self._open(task).baseline

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """One verdict per candidate, in their order; `on_verdict` gets each as soon as it is known.

        A candidate never raises: what is wrong with it is its verdict. Calls `baseline` first if needed.

        Raises:
            as `baseline`, where the workload itself fails.
        """
        opened = self._open(task)
        asking = [as_written(c, opened.builder, opened.baseline.kernel) for c in candidates]
        candidates = self._by_rules(opened, asking) if self._by_rule else asking
        verdicts: dict[str, Verdict] = {}

        def tell(verdict: Verdict) -> None:
            if UNTOLD_GRID in verdict.reason and self._by_rule:
                return
            verdicts[verdict.candidate] = verdict
            task.say(f"{len(verdicts)} of {len(candidates)} judged", len(verdicts) / len(candidates))
            if on_verdict is not None:
                on_verdict(verdict)

        try:
            self._judge(opened, candidates, tell, task)
        except (InputError, TimeLimitError):
            if opened.kept is None:
                raise
            # what was kept of the program does not hold: begin anew
            opened.kept.forget()
            opened = self._open(task, fresh=True)
            self._judge(opened, [c for c in candidates if c.id not in verdicts], tell, task)
        if untold := [c for c in asking if c.id not in verdicts]:
            # the launch does not follow its text's rule: the programs say how they launch it, from now on
            self._by_rule = False
            self._judge(opened, untold, tell, task)
        return tuple(verdicts[c.id] for c in candidates)

    def _judge(
        self,
        opened: PreparedWorkload,
        candidates: Sequence[Candidate],
        tell: Callable[[Verdict], None],
        task: Task,
    ) -> None:
        task.say(f"building {len(candidates)} candidates", 0.0)
        inside = {c.id: c for c in candidates}
        hosts: list[Candidate] = []

        def sift(verdict: Verdict) -> None:
            if self._refused_for_host(opened, verdict):
                hosts.append(inside[verdict.candidate])
            else:
                tell(verdict)

        with contextlib.closing(self._built(opened, list(inside.values()), sift, task)) as waves:
            while True:
                with opened.session.costs.of("building candidates"):
                    built = next(waves, None)
                if built is None:
                    break
                if built:
                    self._visit(opened, built, tell, task)
        if hosts:
            # as they were handed in, whichever was built first
            hosts.sort(key=list(inside.values()).index)
            with opened.session.card("judging host code from outside", task) as watch:
                for candidate in hosts:
                    tell(self._from_outside(opened).judge(candidate, watch, task))

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        """Rebuild the whole program with the candidate and measure it again in fresh processes.

        The verdict is `faster` only if the rebuilt program exits and prints as before, and every fresh
        process finds it faster; its timings are of samples that did not choose the candidate.
        """
        opened = self._open(task)
        candidate = as_written(candidate, opened.builder, opened.baseline.kernel)
        refused: list[Verdict] = []
        built = self._build(opened, [candidate], refused.append, task)
        if not built and self._refused_for_host(opened, refused[0]):
            return self._confirm_outside(opened, candidate, task)
        if not built:
            return Confirmation(refused[0])
        (one,) = built
        twin = self._twin_of(opened, task)
        with Turn(opened.session, f"confirming {opened.baseline.kernel}", task) as turn:
            turn.take()
            task.say("comparing what else the edit changes", None)
            further = self._further_judge(opened)
            own = candidate_twin(opened, one, twin, task)
            marking = Marking(twin, own)
            odd, plans = further.judge(
                built,
                opened.builder.edited,
                lambda heard: opened.verdict(one, heard, turn.take().now()),
                task,
                all_shapes=True,
                marking=marking,
            )
            if candidate.id in odd:
                fallen = opened.untimed(one, *odd[candidate.id])
                slower = further.slower_at(candidate.id)
                return Confirmation(msgspec.structs.replace(fallen, slower_at=slower))
            stands = further.replacements(one, opened.builder.edited(candidate), task)
            if isinstance(stands, NoGeometry):
                return Confirmation(opened.untimed(one, stands.state, stands.reason))
            coverage = Coverage(twin, own, marking.ran)
            confirmed = confirm(one, stands, opened, turn, task, coverage)
            account = further.account(plans[candidate.id])
            verdict = msgspec.structs.replace(confirmed.verdict, further=account)
            return msgspec.structs.replace(confirmed, verdict=verdict)

    def costs(self) -> dict[str, float]:
        """Seconds since the workload was opened, by what they went into; builds and the card's time overlap."""
        return self._opened.session.costs.told() if self._opened is not None else {}

    def confirmation_seconds(self) -> float:
        """How long `confirm` may take at most; 0 before the baseline is known."""
        return self._opened.confirmation_seconds if self._opened is not None else 0.0

    def confirmation_about(self) -> float:
        """How long it takes as a rule; 0 before the baseline is known."""
        return self._opened.confirmation_about if self._opened is not None else 0.0

    def _open(self, task: Task, *, fresh: bool = False) -> PreparedWorkload:
        if self._opened is None or fresh:
            self._further, self._twin = None, None
            gpu = card_of(self._device)
            session = Session(
                workload=self.workload,
                toolchain=self._toolchain,
                arch=self._architecture(gpu),
                gpu=gpu,
                settings=self.settings,
                folder=self._folder,
                ahead=self._ahead,
            )
            self._opened = open_workload(session, self._kernel, task, fresh=fresh)
        return self._opened

    def _refused_for_host(self, opened: PreparedWorkload, verdict: Verdict) -> bool:
        """Whether a candidate was refused for its host code alone, and may be judged from outside."""
        return self.settings.host_edits and verdict.candidate in opened.builder.changing_host

    def _confirm_outside(self, opened: PreparedWorkload, candidate: Candidate, task: Task) -> Confirmation:
        task.say("rebuilding and measuring the program, from outside", None)
        with opened.session.card("confirming host code from outside", task) as watch:
            return self._from_outside(opened).confirm(candidate, watch, task)

    def _from_outside(self, opened: PreparedWorkload) -> OutsideJudge:
        if self._outside is None:
            library = opened.place.library
            self._outside = OutsideJudge(
                opened.session,
                self._folder / "outside",
                opened.builder.text,
                opened.baseline.program,
                probe_tracer(library),
                read=(str(library.parent),),
            )
        return self._outside

    def _architecture(self, gpu: Gpu) -> str:
        if self._arch:
            return self._arch
        model = parse(Builder.read(self.workload), self.workload.source)
        return target_architecture(None, present=gpu, arch_specific=model.needs_arch_specific)

    def _by_rules(self, opened: PreparedWorkload, asking: Sequence[Candidate]) -> list[Candidate]:
        """The candidates without questions to programs that the rules of their texts' launches answer."""
        shapes = (opened.target.shape, *opened.target.others)
        return [by_its_rule(c, opened.builder, opened.baseline.kernel, shapes) for c in asking]

    def _build(
        self,
        opened: PreparedWorkload,
        candidates: Sequence[Candidate],
        tell: Callable[[Verdict], None],
        task: Task,
    ) -> list[Built]:
        return [one for wave in self._built(opened, candidates, tell, task) for one in wave]

    def _built(
        self,
        opened: PreparedWorkload,
        candidates: Sequence[Candidate],
        tell: Callable[[Verdict], None],
        task: Task,
    ) -> Generator[list[Built], None, None]:
        """What can be visited of the candidates, in their order; those that take long to build come later."""

        def keep(done: Built | Verdict) -> Built | None:
            if isinstance(done, Verdict):
                tell(done)
            elif done.identical and not self.settings.measure_identical:
                same = opened.untimed(done, "same", "it compiles to the baseline's own machine code")
                tell(msgspec.structs.replace(same, cost={BUILD: done.seconds}))
            elif (refused := self._further_judge(opened).refusal(done)) is not None:
                tell(opened.untimed(done, *refused))
            else:
                return done
            return None

        # programs are rebuilt for all of them at once
        count = 0 if any(c.asks_program for c in candidates) else len(candidates)
        order = {c.id: index for index, c in enumerate(candidates)}
        for wave in in_waves(lambda made: build_beside(opened, candidates, made, task), count, keep):
            built = placed(opened, wave, tell, task)
            yield sorted(built, key=lambda b: order[b.candidate.id])

    def _visit(
        self, opened: PreparedWorkload, built: Sequence[Built], tell: Callable[[Verdict], None], task: Task
    ) -> None:
        by_id = {b.candidate.id: b for b in built}
        first: dict[str, Verdict] = {}
        with Turn(opened.session, f"judging {opened.baseline.kernel}", task) as turn:

            def verdict(heard: VisitResult) -> Verdict:
                return opened.verdict(by_id[heard.result.candidate], heard, turn.take().now())

            def take(heard: VisitResult) -> None:
                found = verdict(heard)
                # others wait: those called faster for what else they change, all where every shape counts
                if found.state == "faster" or (others_of(opened) and found.state != "provisional"):
                    first[found.candidate] = found
                else:
                    tell(found)

            visited(opened.visits, built, take, task, turn)
            if first:
                turn.take()
            if others_of(opened):
                full = [b for b in built if b.candidate.id in first]
                first = judge_shapes(opened, full, first, verdict, task)
            waiting = [by_id[name] for name, one in first.items() if one.state == "faster"]
            odd, _ = self._further_judge(opened).judge(
                waiting, opened.builder.edited, verdict, task, all_shapes=False
            )
            for name, one in first.items():
                state, reason = odd.get(name, (one.state, one.reason))
                tell(msgspec.structs.replace(one, state=state, reason=reason))

    def _twin_of(self, opened: PreparedWorkload, task: Task) -> Twin | Unknown:
        """The kernel's twin that marks what of it runs, assembled once."""
        if self._twin is None:
            self._twin = kernel_twin(opened, self._folder / "twin", task)
        return self._twin

    def _further_judge(self, opened: PreparedWorkload) -> FurtherJudge:
        if self._further is None:
            launched = opened.geometries.launched
            self._further = FurtherJudge(opened, launched, self.settings, opened.session.folder)
        return self._further
