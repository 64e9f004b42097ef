"""The Ozaki scheme with a new shift each slice: what papers 000 and 004 share."""

from widen.papers.slicing.algorithm import Ran

__all__ = ["Ran"]
