"""Formats: what the records of one word and of several say, checked against their definition."""

from __future__ import annotations

import pytest

import widen
from widen.formats import (
    BINARY,
    COMPLEX,
    FORMATS,
    PLAIN,
    WORDS,
    Multiple,
    complex_of,
    default_result,
)

PRECISIONS = {
    "float64x2": 107, "float64x3": 161, "float64x4": 215, "float64x8": 431, "float64x16": 863,
    "float32x2": 49, "float32x3": 74, "float32x4": 99, "float64_float32": 78,
}  # fmt: skip


def test_the_table_of_words():
    assert {name: fmt.precision for name, fmt in WORDS.items()} == PRECISIONS
    for name, fmt in WORDS.items():
        assert fmt.name == name
        assert FORMATS[name] is fmt is getattr(widen, name)
        assert (fmt.parts, fmt.part) == (1, fmt)
        assert (fmt.highest, fmt.lowest) == (fmt.words[0].highest, fmt.words[-1].lowest)


def test_every_part_has_its_complex_format():
    for name, fmt in COMPLEX.items():
        assert (fmt.name, fmt.parts, fmt.precision) == (name, 2, fmt.part.precision)
    for fmt in (BINARY["float64"], BINARY["float32"], *WORDS.values()):
        assert complex_of(fmt).part == fmt
    assert widen.complex128x4.part is widen.float64x4
    assert widen.complex128_complex64.part is widen.float64_float32


def test_plain_formats_have_one_word():
    assert set(PLAIN) == {*BINARY, "complex128", "complex64"}
    assert all(fmt.part.words == (fmt.part,) for fmt in PLAIN.values())


def test_a_number_of_one_word_is_no_multiple():
    with pytest.raises(ValueError, match="one word"):
        Multiple("float64x1", (BINARY["float64"],))


def test_the_wider_precision_is_the_default():
    def result(left, right):
        return default_result(FORMATS[left], FORMATS[right]).name

    assert result("float64x2", "float32x4") == "float64x2"
    assert result("float32x2", "float64") == "float64"
    assert result("float32x3", "complex128") == "complex64x3"
    assert result("float64_float32", "float16") == "float64_float32"


def test_formats_print_their_names():
    for name, fmt in FORMATS.items():
        assert str(fmt) == f"{fmt}" == name
        assert eval(repr(fmt), {"widen": widen}) is fmt
    assert repr(widen.float64x2) == "widen.float64x2"
    assert repr(widen.complex128_complex64) == "widen.complex128_complex64"
    assert repr(COMPLEX["complex64"]) == "widen.formats.PLAIN['complex64']"
    assert repr(widen.Words([1, 2], "complex64x3").dtype) == "widen.complex64x3"
