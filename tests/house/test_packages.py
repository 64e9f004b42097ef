"""The look at installed packages finds what is missing or damaged."""

import pytest

import packages
from widen.stages.compiling import packs


@pytest.fixture
def shipped(tmp_path):
    for architecture in (80, 90):
        packs.write(tmp_path / f"sm_{architecture}.pack", {"a": b"code", "b": b"more code"})
    return tmp_path


def test_whole_packs_are_fine(shipped):
    assert packages.pack_faults(shipped, [80, 90]) == []


def test_a_missing_pack_is_found(shipped):
    assert packages.pack_faults(shipped, [80, 120]) == ["there is no machine code for sm_120"]


def test_a_damaged_pack_is_found(shipped):
    path = shipped / "sm_90.pack"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (fault,) = packages.pack_faults(shipped, [80, 90])
    assert "of 2 kernels for sm_90 are damaged" in fault


def test_what_is_not_installed_is_refused(monkeypatch, tmp_path):
    """A checkout beside the environment must not be what was looked at."""
    monkeypatch.setattr(packages.sys, "prefix", str(tmp_path))
    with pytest.raises(AssertionError, match="is not installed"):
        packages.look([])
