"""Words in files: every format comes back, nothing is run, and what is damaged says so."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_words, draw_words
from widen.formats import FORMATS, PLAIN

SUFFIXES = [".npz", ".safetensors"]
SEVERAL = [name for name in FORMATS if name not in PLAIN]
suffixes = pytest.mark.parametrize("suffix", SUFFIXES)


@suffixes
@pytest.mark.parametrize("name", SEVERAL)
def test_every_format_comes_back(tmp_path, suffix, name):
    x, _ = draw_words("phi2", (3, 5, 1), 1, name)
    for at, part in enumerate((x, x[0], x[:0], x[1, 2], x.T, x.to_torch())):
        path = tmp_path / f"x{at}{suffix}"
        part.save(path)
        y = widen.load(path)
        assert (y.format, y.shape) == (part.format, part.shape)
        assert_same_words(y, part.to_arrays())
        assert isinstance(y.planes[0], np.ndarray)


@suffixes
def test_special_values_and_names(tmp_path, suffix):
    x = widen.Words([np.inf, -np.inf, np.nan, 0.0, 5e-324, 1e308], "float64x2")
    path = tmp_path / f"special{suffix}"
    x.save(str(path))
    assert_same_words(widen.load(os.fspath(path)), x)
    widen.Words([2.0], "float32x2").save(path)  # in its place
    assert widen.load(path).dtype == widen.float32x2
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@suffixes
def test_a_file_appears_whole_or_not_at_all(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"x{suffix}"
    x = widen.Words([1.0], "float64x2")
    x.save(path)
    before = path.read_bytes()

    def half(where):
        where.write_bytes(b"half")
        raise OSError("no space")

    if suffix == ".npz":
        monkeypatch.setattr(np, "savez", lambda where, **_: half(where))
    else:
        monkeypatch.setattr("safetensors.numpy.save_file", lambda planes, where, **_: half(where))
    with pytest.raises(OSError, match="no space"):
        (x + 1).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def members(path):
    with np.load(path) as archive:
        return dict(archive)


DAMAGE = {
    "no format": lambda x: x.pop("widen_format"),
    "another format": lambda x: x.update(widen_format=np.array("float64")),
    "an unknown format": lambda x: x.update(widen_format=np.array("float65x2")),
    "a number as format": lambda x: x.update(widen_format=np.array(2)),
    "a word missing": lambda x: x.pop("word1"),
    "a word too many": lambda x: x.update(word2=x["word1"]),
    "another dtype": lambda x: x.update(word1=x["word1"].astype(np.float32)),
    "another shape": lambda x: x.update(word1=x["word1"][:, :1]),
    "words that overlap": lambda x: x.update(word1=x["word0"]),
    "other parts": lambda x: x.update({k: x[k].repeat(2, 0) for k in ("word0", "word1")}),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_refused(tmp_path, kind):
    path = tmp_path / "x.npz"
    widen.Words(["1/3", "2/7"], "float64x2").save(path)
    entries = members(path)
    DAMAGE[kind](entries)
    np.savez(path, **entries)
    with pytest.raises(ValueError, match=r"x\.npz holds no words, or is damaged: ."):
        widen.load(path)


@suffixes
def test_bytes_that_are_damaged_are_refused(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    widen.Words(np.arange(50) / 7, "float64x2").save(path)
    whole = path.read_bytes()
    for cut in (0, 1, 7, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="damaged"):
            widen.load(path)
    path.write_bytes(os.urandom(400))
    with pytest.raises(ValueError, match="damaged"):
        widen.load(path)
    if suffix == ".npz":  # whose members have checksums
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="damaged"):
            widen.load(path)
        for place, bit in [(8, 2), (6, 1)]:  # no such compression; encrypted
            flipped = bytearray(whole)
            directory = whole.index(b"PK\x01\x02")
            for at in (place, directory + place + 2):
                flipped[at] ^= bit
            path.write_bytes(flipped)
            with pytest.raises(ValueError, match="damaged"):
                widen.load(path)


ENTRY = b"PK\x01\x02"
"""What an entry of an archive's list of members begins with."""


@pytest.mark.parametrize(("place", "value"), [
    (8, 1),  # it is encrypted
    (8, 32),  # it is a patch
    (10, 99),  # it is compressed in a way that nobody knows
    (45, 127),  # it begins far behind the end
])  # fmt: skip
def test_a_list_of_members_that_is_damaged_is_refused(tmp_path, place, value):
    path = tmp_path / "x.npz"
    widen.Words(["1/3", "2/7"], "float64x2").save(path)
    changed = bytearray(path.read_bytes())
    changed[changed.index(ENTRY) + place] = value
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="damaged"):
        widen.load(path)


class Trap:
    """What runs when it is loaded by pickle."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_no_object_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("x.npz", "w") as archive:
        for name in ("widen_format.npy", "word0.npy", "word1.npy"):
            with archive.open(name, "w") as file:
                np.lib.format.write_array(file, np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(ValueError, match="damaged"):
        widen.load("x.npz")
    (tmp_path / "y.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="damaged"):
        widen.load("y.npz")
    assert not (tmp_path / "trapped").exists()


def test_names_that_are_refused(tmp_path):
    x = widen.Words([1.0], "float64x2")
    for name in ("x.npy", "x", "x.pt"):
        with pytest.raises(ValueError, match=r"end in \.npz or \.safetensors"):
            x.save(tmp_path / name)
        with pytest.raises(ValueError, match=r"end in \.npz or \.safetensors"):
            widen.load(tmp_path / name)
    for name in ("missing.npz", "missing.safetensors"):
        with pytest.raises(FileNotFoundError):
            widen.load(tmp_path / name)
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(ValueError, match=r"np\.load reads other archives"):
        widen.load(tmp_path / "other.npz")


def test_torch_files_with_weights_only(tmp_path):
    """What docs/programs.md writes: planes and the name of the format, which are no code."""
    x = widen.Words(["1/3", "2/7"], "float64x3").to_torch()
    torch.save({"format": x.format.name, "planes": list(x.planes)}, tmp_path / "x.pt")
    found = torch.load(tmp_path / "x.pt", weights_only=True)
    y = widen.Words.from_planes(getattr(widen, found["format"]), found["planes"])
    assert_same_words(y.to_arrays(), x.to_arrays())
    assert isinstance(y.planes[0], torch.Tensor)
