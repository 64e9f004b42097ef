"""Arrays of numbers of several words: how they are made, printed and reckoned with."""

from widen.words.array import Words

__all__ = ["Words"]
