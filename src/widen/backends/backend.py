"""What every backend can do: the four stages, under the same four names."""

from __future__ import annotations

from typing import Any, Protocol


class Backend(Protocol):
    """The stages a backend offers; what they pass on is its own business.

    `definition` has them in Python integers, `numpy` in NumPy, Numba and BLAS. The bits of planes,
    groups and results are the same.
    """

    def quantise(self, *arguments: Any) -> Any:
        """Row or column exponents and norms, from each line alone."""

    def encode(self, *arguments: Any) -> Any:
        """Planes of small integers."""

    def multiply(self, *arguments: Any) -> Any:
        """Groups: exact sums of products of planes."""

    def reconstruct(self, *arguments: Any) -> Any:
        """Exact integers from groups, rounded once."""
