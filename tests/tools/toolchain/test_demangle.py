# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from warplens_tools.toolchain.demangle import demangle, parse_qualified, qualified_name, strip_signature

NAMES = {
    "_Z5saxpyifPKfPf": "saxpy",
    "_ZN2ns5scaleIfLi4EEEvPT_i": "ns::scale",
    "_ZN2ns5scaleIdLi8EEEvPT_i": "ns::scale",
    "_ZN40_GLOBAL__N__2915b0ab_8_small_cu_60b126a16hiddenEPi": "(anonymous namespace)::hidden",
    "cname": "cname",
    "_ZN1a1b1cILb1ENS_1dIiEEEEvT0_": "a::b::c",
    "_Z3addIN4cute6LayoutINS0_1CILi8EEES2_EEEvT_": "add",
}


@pytest.mark.parametrize(("mangled", "name"), NAMES.items())
def test_qualified_name(mangled: str, name: str) -> None:
    assert qualified_name(mangled) == name


@pytest.mark.parametrize(("mangled", "name"), [(m, n) for m, n in NAMES.items() if m.startswith("_Z")])
def test_parser_without_libstdcxx_agrees(mangled: str, name: str) -> None:
    assert parse_qualified(mangled) == name


def test_full_demangling_keeps_arguments() -> None:
    assert demangle("_ZN2ns5scaleIfLi4EEEvPT_i") == "void ns::scale<float, 4>(float*, int)"


def test_static_kernel_of_a_relocatable_unit() -> None:
    assert qualified_name("__nv_static_48__b5cb5ba6_5_st_cu_60b126a1__Z4statPi") == "stat"
    anonymous = "__nv_static_22__cf201c12_5_nr_cu_main__ZN33_GLOBAL__N__cf201c12_5_nr_cu_main1kEPf"
    assert qualified_name(anonymous) == "(anonymous namespace)::k"


def test_static_variable_of_a_relocatable_unit() -> None:
    # the unit's mark may end in the mangled name of its first function
    assert demangle("__nv_static_24__45bf8a00_4_a_cu__Z3zzzv_own_scale") == "own_scale"
    assert demangle("__nv_static_25__1925b8fe_4_a_cu_51c5c571_own_scale") == "own_scale"
    assert demangle("__nv_static_9__short") == "__nv_static_9__short"


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void run<void (*)(int), &(f(int))>(int)", "run"),
        ("void ns::(anonymous namespace)::k<(ns::E)2>(float*)", "ns::(anonymous namespace)::k"),
        ("void lam<__nv_dl_wrapper_t<__nv_dl_tag<int (*)(), main, 1u> > >(int*)", "lam"),
        ("k[abi:cxx11](int)", "k"),
    ],
)
def test_strip_signature(signature: str, name: str) -> None:
    assert strip_signature(signature) == name
