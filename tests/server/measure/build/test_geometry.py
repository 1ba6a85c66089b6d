# SPDX-License-Identifier: Apache-2.0
"""Which geometry of a rebuilt program stands for the judged launch, and what decides it."""

from __future__ import annotations

import msgspec
from tests.server.agent.snippets import GUARDED

from warplens.measure.build.allowed import host_text
from warplens.measure.build.geometry import NoGeometry, counterpart
from warplens_tools.run.probe.job import Shape
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.text import SourceText

CODE = GUARDED + "void go(float* x, int n) { int t = 256; scale<<<(n + t - 1) / t, t>>>(x, 2.0f, n); }"


def surveyed(mangled: str, grid: int, block: int) -> SurveyedShape:
    return SurveyedShape(mangled, (grid, 1, 1), (block, 1, 1), 0, 1, 0, 1, 0, 1e3, (1e3,))


NAME = "scale(float*, float, int)"
WAS = (surveyed("_Z5scalePffi", 4, 256),)


def test_the_one_geometry_of_the_kernel_is_taken() -> None:
    runs = (surveyed("_Z5scalePffi", 8, 128), surveyed("_Z5otherv", 1, 1))
    assert counterpart(WAS, runs, NAME) == Shape((8, 1, 1), (128, 1, 1), 0)


def test_of_several_geometries_none_is_guessed() -> None:
    runs = (surveyed("_Z5scalePffi", 8, 128), surveyed("_Z5scalePffi", 9, 128))
    assert counterpart(WAS, runs, NAME) == NoGeometry(
        "unproven",
        "the rebuilt program launches it in 2 geometries",
    )


def test_several_that_are_launched_as_often_stand_for_each_other() -> None:
    def runs(count: int, shape: SurveyedShape) -> SurveyedShape:
        return msgspec.structs.replace(shape, launches=count)

    was = (runs(3, surveyed("_Z5scalePffi", 8, 256)), runs(9, surveyed("_Z5scalePffi", 2, 256)))
    now = (runs(9, surveyed("_Z5scalePffi", 4, 128)), runs(3, surveyed("_Z5scalePffi", 16, 128)))
    assert counterpart(was, now, NAME) == Shape((16, 1, 1), (128, 1, 1), 0)
    assert counterpart(was, (runs(3, now[0]), runs(9, now[1])), NAME) == NoGeometry(
        "unproven", "the rebuilt program launches it in 2 geometries"
    )


def test_a_kernel_that_is_not_launched_any_more_is_said_so() -> None:
    found = counterpart(WAS, (surveyed("_Z5otherv", 1, 1),), NAME)
    assert found == NoGeometry("unproven", "the rebuilt program does not launch it")


def test_device_code_does_not_decide_geometry_but_block_variables_do() -> None:
    def sizes(text: str) -> str:
        return host_text(SourceText(text))

    assert sizes(CODE) == sizes(CODE.replace("x[i] *= a", "x[i] = x[i] * a"))
    assert sizes(CODE) == sizes("__device__ int one() { return 1; }\n" + CODE)
    assert sizes(CODE) != sizes(CODE.replace("t = 256", "t = 128"))
    asked = CODE.replace("t = 256", "t = n > 9 ? other(n) : 256")
    assert sizes(asked) != sizes(asked.replace(": 256", ": 128"))


def test_launches_stand_for_each_other_in_their_order() -> None:
    def runs(shape: SurveyedShape, *order: int) -> SurveyedShape:
        return msgspec.structs.replace(shape, launches=len(order), order=tuple(map(float, order)))

    def kernel(grid: int, *order: int) -> SurveyedShape:
        return runs(surveyed("_Z5scalePffi", grid, 256), *order)

    was = (kernel(9, 0), kernel(8, 1), kernel(7, 2, 3))
    assert counterpart(was, (kernel(3, 0), kernel(2, 1, 2, 3)), NAME) == Shape((3, 1, 1), (256, 1, 1), 0)
    assert counterpart(was[1:] + was[:1], (kernel(3, 0), kernel(2, 1, 2, 3)), NAME) == Shape(
        (2, 1, 1), (256, 1, 1), 0
    )
    # one shape would have two, and one launch is missing
    assert isinstance(counterpart(was, (kernel(3, 0, 2), kernel(2, 1, 3)), NAME), NoGeometry)
    assert isinstance(counterpart(was, (kernel(3, 0), kernel(2, 1, 2)), NAME), NoGeometry)
