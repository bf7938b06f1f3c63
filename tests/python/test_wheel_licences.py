"""scripts/wheels/licences.py: a wheel holds the licences of what it is made of."""

from __future__ import annotations

import base64
import hashlib
import importlib
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.fixture
def licences(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    monkeypatch.syspath_prepend(ROOT / "scripts/wheels")
    return importlib.import_module("licences")


def test_what_is_compiled_in_has_its_licence(licences):
    texts = licences.licences_for([], Path(sys.prefix))
    assert set(texts) == {"blake3", "nanobind", "robin_map", "toml11"}
    assert b"Wenzel Jakob" in texts["nanobind"]
    text = texts["robin_map"].decode()
    assert text.startswith("MIT License\n\nCopyright (c) 2017 Thibaut Goetghebuer-Planchon")
    assert text.endswith("OTHER DEALINGS IN THE\nSOFTWARE.\n")
    assert "*" not in text and "#include" not in text


def test_a_library_of_unknown_licence_is_refused(licences):
    with pytest.raises(licences.CannotRun, match="libnew.so.*is bundled"):
        licences.licences_for(["libnew.so.1"], Path(sys.prefix))


def test_a_header_without_a_licence_is_refused(licences, tmp_path):
    (tmp_path / "bare.h").write_text("#pragma once\n/* MIT */\n")
    with pytest.raises(licences.CannotRun, match="bare.h does not begin"):
        licences.opening_comment(tmp_path / "bare.h")


def test_the_wheel_lists_the_licences_with_their_digests(licences, tmp_path):
    wheel = tmp_path / "ballast-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("ballast/__init__.py", "")
        file.writestr("ballast.libs/", "")
        file.writestr("ballast.libs/libfmt-0a1b.so.9", "")
        file.writestr("ballast-0.dist-info/RECORD", "ballast/__init__.py,,0\nballast.libs/libfmt-0a1b.so.9,,0\n")
    licences.add_licences(wheel, Path(sys.prefix))
    with zipfile.ZipFile(wheel) as file:
        assert "ballast-0.dist-info/licenses/third_party/libfmt.txt" in file.namelist()
        path = "ballast-0.dist-info/licenses/third_party/robin_map.txt"
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read(path)).digest()).decode().rstrip("=")
        assert f"{path},sha256={digest},{file.getinfo(path).file_size}" in file.read("ballast-0.dist-info/RECORD").decode()
