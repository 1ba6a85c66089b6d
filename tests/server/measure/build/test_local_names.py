# SPDX-License-Identifier: Apache-2.0
"""Which names mean a host function's own variable wherever it says them."""

from __future__ import annotations

import pytest

from warplens.measure.build.local_names import only_local


@pytest.mark.parametrize(
    "body",
    [
        "int side = 3 ; use ( side ) ;",
        "const std :: vector < float > a ( 3 ) , side = { 1 } ; if ( a ) { use ( side ) ; }",
        "float * x , * side ; { side = x ; }",
        "dim3 side ( 3 , 1 ) ; p . side = 2 ;",
        "{ auto side = 1 ; use ( side ) ; } p -> side = 2 ;",
    ],
)
def test_a_variable_declared_in_a_block_is_its_own(body: str) -> None:
    assert only_local(f"int main ( ) {{ {body} }}".split(), "side")


@pytest.mark.parametrize(
    "body",
    [
        "use ( side ( 3 ) ) ;",
        "side ( 3 ) ;",
        "return side ;",
        "x = 1 , side ( 3 ) ;",
        "if ( x ) side ( 3 ) ;",
        "if ( x ) ; else side ( 3 ) ;",
        "use ( side ) ; int side = 3 ;",
        "{ int side = 3 ; } use ( side ) ;",
        "int side = 3 ; use ( :: side ( 3 ) ) ;",
        "for ( int side = 0 ; ; ) ; use ( side ) ;",
        "extern int side ; use ( side ) ;",
        "using n :: side ; use ( side ) ;",
        "int x = y , z = side ( 3 ) ;",
    ],
)
def test_what_is_said_elsewhere_too_is_not(body: str) -> None:
    assert not only_local(f"int main ( ) {{ {body} }}".split(), "side")
