# SPDX-License-Identifier: Apache-2.0
"""With wheels made here and pip's own configuration pointing at them: no network."""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from pathlib import Path

import pytest

from warplens_tools.errors import InputError, ToolFailedError
from warplens_tools.process.task import Task
from warplens_tools.toolchain.managed import (
    CUDA_VERSION,
    Bundle,
    bundle_folder,
    install_bundle,
    managed_toolkit,
    toolchain_bundle,
)

BUNDLE = Bundle("toolchain", ("tiny-tool==1.0",), 0.1, ("nvidia/cu13/bin/tiny",))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    (tmp_path / "wheels").mkdir()


def _wheel(folder: Path, version: str, files: dict[str, str]) -> None:
    info = f"tiny_tool-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny-tool\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"tiny_tool-{version}-py3-none-any.whl", "w") as wheel:
        record = ""
        for name, text in content.items():
            wheel.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(text)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")


def test_without_consent_nothing_is_installed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0\.1 MB"):
        install_bundle(BUNDLE, consent=False)
    assert not (tmp_path / "home").exists()


def test_install_once_and_replace_by_a_newer(tmp_path: Path) -> None:
    said: list[tuple[str, float | None]] = []
    _wheel(tmp_path / "wheels", "1.0", {"nvidia/cu13/bin/tiny": "one"})
    folder = install_bundle(BUNDLE, consent=True, task=Task(lambda text, share: said.append((text, share))))
    assert said[-1][1] == 1.0
    assert bundle_folder("toolchain") == folder
    assert managed_toolkit() == folder / "nvidia/cu13"
    assert install_bundle(BUNDLE, consent=False) == folder
    _wheel(tmp_path / "wheels", "2.0", {"nvidia/cu13/bin/tiny": "two"})
    newer = Bundle("toolchain", ("tiny-tool==2.0",), 0.1, BUNDLE.expected)
    install_bundle(newer, consent=True)
    assert (bundle_folder("toolchain") or tmp_path).joinpath("nvidia/cu13/bin/tiny").read_text() == "two"
    assert len(list((tmp_path / "home/toolchain").glob("v-*"))) == 1


@pytest.mark.thorough
def test_a_failed_installation_changes_nothing(tmp_path: Path) -> None:
    _wheel(tmp_path / "wheels", "1.0", {"nvidia/cu13/bin/tiny": "one"})
    folder = install_bundle(BUNDLE, consent=True)
    with pytest.raises(ToolFailedError, match="could not install"):
        install_bundle(Bundle("toolchain", ("tiny-tool==9.9",), 0.1, ()), consent=True)
    with pytest.raises(ToolFailedError, match="is not there"):
        install_bundle(Bundle("toolchain", ("tiny_tool==1.0",), 0.1, ("nvidia/none",)), consent=True)
    assert bundle_folder("toolchain") == folder
    assert [p.name for p in (tmp_path / "home/toolchain").glob("v-*")] == [folder.name]


def test_two_at_once_install_one(tmp_path: Path) -> None:
    _wheel(tmp_path / "wheels", "1.0", {"nvidia/cu13/bin/tiny": "one"})
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda: folders.append(install_bundle(BUNDLE, consent=True)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders[0] == folders[1]


def test_only_what_is_missing_is_asked_for() -> None:
    assert toolchain_bundle(["nvdisasm", "ncu"]).requirements == (f"cuda-toolkit[nvdisasm]=={CUDA_VERSION}",)
    family = toolchain_bundle(["cicc"])
    assert "[nvcc,nvvm,crt,cudart,cccl]" in family.requirements[0]
    everything = toolchain_bundle()
    assert 140 < everything.megabytes < 150
    assert "cupti" in everything.requirements[0]
