"""Packs of machine code: all of a piece, or none; whatever happens to the file."""

from __future__ import annotations

import hashlib

import pytest

from widen.stages.compiling import packs
from widen.stages.compiling.packs import Pack


def key_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


PIECES = {key_of(f"piece {at}"): bytes([at % 251]) * (60_000 + at) for at in range(20)}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "shipped" / "sm_90.pack"
    packs.write(target, PIECES)
    return target


def test_pieces_come_back_and_nothing_else(path):
    pack = Pack(path)
    assert {key: pack.get(key) for key in PIECES} == PIECES
    assert pack.get(key_of("another")) is None
    assert len({start for start, *_ in pack.index.values()}) > 1, "several chunks"
    assert [x.name for x in path.parent.iterdir()] == ["sm_90.pack"]


def test_the_same_pieces_give_the_same_bytes(path, tmp_path):
    packs.write(tmp_path / "again", PIECES)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_without_a_file_there_is_nothing(tmp_path):
    assert Pack(tmp_path / "missing").get(key_of("piece 1")) is None
    packs.write(tmp_path / "empty", {})
    assert Pack(tmp_path / "empty").index == {}


def test_no_flipped_byte_gives_wrong_code(path):
    """In the head and the index: nothing; in a chunk: less, never something else."""
    whole = path.read_bytes()
    step = max(1, len(whole) // 150)
    for at in [*range(60), *range(60, len(whole), step), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        pack = Pack(path)
        found = {key: pack.get(key) for key in PIECES}
        assert all(data in (None, PIECES[key]) for key, data in found.items()), at
        assert None in found.values() or found == PIECES


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.9])
def test_no_short_file_gives_wrong_code(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    pack = Pack(path)
    assert all(pack.get(key) in (None, data) for key, data in PIECES.items())
    assert any(pack.get(key) is None for key in PIECES)


def test_a_piece_under_another_key_is_none(path):
    """Code for another architecture, put in the place of this one's."""
    pack = Pack(path)
    first, second = list(PIECES)[:2]
    pack.index[first] = pack.index[second]
    assert pack.get(first) is None
    assert pack.get(second) == PIECES[second]
