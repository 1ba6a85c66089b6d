"""Which geometry of a rebuilt program stands for the judged launch, and what decides it."""

from __future__ import annotations

from tests.server.agent.snippets import GUARDED

from warplens.measure.build.allowed import sizes_of
from warplens.measure.build.geometry import only_shape
from warplens_tools.run.probe.job import Shape
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.text import SourceText

CODE = GUARDED + "void go(float* x, int n) { int t = 256; scale<<<(n + t - 1) / t, t>>>(x, 2.0f, n); }"


def surveyed(mangled: str, grid: int, block: int) -> SurveyedShape:
    return SurveyedShape(mangled, (grid, 1, 1), (block, 1, 1), 0, 1, 0, 1, 0, 1e3, (1e3,))


def test_the_one_geometry_of_the_kernel_is_taken() -> None:
    runs = (surveyed("_Z5scalePffi", 8, 128), surveyed("_Z5otherv", 1, 1))
    assert only_shape(runs, "scale(float*, float, int)") == Shape((8, 1, 1), (128, 1, 1), 0)


def test_of_several_geometries_none_is_guessed() -> None:
    runs = (surveyed("_Z5scalePffi", 8, 128), surveyed("_Z5scalePffi", 9, 128))
    assert only_shape(runs, "scale(float*, float, int)") == (
        "unproven",
        "the rebuilt program launches it in 2 geometries",
    )


def test_a_kernel_that_is_not_launched_any_more_is_said_so() -> None:
    found = only_shape((surveyed("_Z5otherv", 1, 1),), "scale(float*, float, int)")
    assert found == ("unproven", "the rebuilt program does not launch it")


def test_device_code_does_not_decide_geometry_but_block_variables_do() -> None:
    def sizes(text: str) -> object:
        return sizes_of(SourceText(text), "k.cu")

    assert sizes(CODE) == sizes(CODE.replace("x[i] *= a", "x[i] = x[i] * a"))
    assert sizes(CODE) != sizes(CODE.replace("t = 256", "t = 128"))
