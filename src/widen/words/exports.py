"""What `Words` become: other formats, arrays, tensors, numbers of other kinds, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import is_tensor, library_of, new_planes, words_of
from widen.words import construction, conversions, files, foreign, renormalise, text
from widen.words.methods import Methods
from widen.words.promotion import wide_format

if TYPE_CHECKING:
    from widen.words.array import Words

# mypy: disable-error-code="misc"
# (self is a Words, which is a subclass of this)


class Exports(Methods):
    """Words as something else."""

    __slots__ = ()

    def astype(self: Words, dtype: Any) -> Words:
        """The same numbers in another format of several words, rounded once; always a copy.

        Real numbers become complex ones, not the other way round: take ``.real``.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.astype(widen.float64x4).format
        widen.float64x4
        """
        fmt = wide_format(dtype)
        if fmt.parts < self.format.parts:
            raise TypeError(
                f"{self.format.name} to {fmt.name} would drop imaginary parts: use .real, .imag"
            )
        if fmt == self.format:
            return self.copy()  # its words are those of its numbers, up to the largest
        planes = list(self.planes)
        if fmt.parts > self.format.parts:
            planes = [
                library_of(plane).stack([plane[0], library_of(plane).zeros_like(plane[0])])
                for plane in planes
            ]
        return type(self).of(fmt, construction.converted(fmt, planes))

    def to_numpy(self: Words, dtype: Any = None) -> Any:
        """A NumPy array of the nearest floats: the first words, or those of another dtype.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.to_numpy().tolist()
        [0.1, 0.3333333333333333, -2.0]
        """
        names = words_of(self.format)
        try:
            name = names[0] if dtype is None else np.dtype(dtype).name
        except TypeError:
            name = str(dtype)
        real = {"complex128": "float64", "complex64": "float32"}.get(name, name)
        if real not in ("float64", "float32") or (real != name and self.format.parts == 1):
            raise TypeError(f"to_numpy(dtype={name}): give float64 or float32 (complex if x is)")
        planes = [conversions.on_cpu(plane) for plane in self.planes]
        if real != names[0]:
            planes = [renormalise.nearest([plane.astype("float64") for plane in planes], real)]
        if self.format.parts == 1:
            return planes[0][0].copy()[()]
        joined = np.empty(self.shape, "complex128" if real == "float64" else "complex64")
        joined.real, joined.imag = planes[0]
        return joined[()]

    def to_torch(self: Words, device: Any = "cpu") -> Words:
        """The same numbers in tensors on a device; PyTorch is imported if it was not.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> type(x.to_torch().planes[0]).__name__, x.to("cpu").device
        ('Tensor', device(type='cpu'))
        """
        torch = foreign.package("torch", "widen[torch]")
        planes = [
            plane if is_tensor(plane) else torch.from_numpy(np.require(plane, None, ("C", "W")))
            for plane in self.planes
        ]
        target = new_planes(self.format, tuple(planes[0].shape), torch.device(device))
        for new, plane in zip(target, planes, strict=True):
            new.copy_(plane)
        return type(self).of(self.format, target)

    to = to_torch

    def cpu(self: Words) -> Words:
        """The same numbers where the CPU is; NumPy arrays as they are.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.cpu() is x, x.to_torch().cpu().device
        (True, device(type='cpu'))
        """
        return self.to_torch("cpu") if is_tensor(self.planes[0]) else self

    def save(self: Words, path: Any) -> None:
        """Write these numbers to a .npz or .safetensors file, which `widen.load` reads.

        >>> import tempfile, widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     x.save(f"{folder}/x.npz")
        ...     print(widen.load(f"{folder}/x.npz")[2])
        -2.0
        """
        files.save(self, path)

    def to_arrays(self: Words) -> Words:
        """The same numbers in NumPy arrays.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.to_torch().to_arrays().device
        'cpu'
        """
        return self._each(conversions.on_cpu)

    to_fraction, to_decimal, to_int = (
        conversions.to_fraction,
        conversions.to_decimal,
        conversions.to_int,
    )
    to_mpmath, to_gmpy2, to_flint = foreign.to_mpmath, foreign.to_gmpy2, foreign.to_flint
    to_strings = text.to_strings

    def _single(self: Words, target: str) -> Words:
        if self.size != 1:
            raise TypeError(f"{target} takes a single number; this array has {self.size}")
        return self.reshape(())

    def __float__(self: Words) -> float:
        if self.format.parts == 2:
            raise TypeError("a complex number is not a float; use .real or complex(x)")
        return float(self._single("float").to_numpy("float64"))

    def __complex__(self: Words) -> complex:
        name = "float64" if self.format.parts == 1 else "complex128"
        return complex(self._single("complex").to_numpy(name))

    def __int__(self: Words) -> int:
        return int(conversions.to_fraction(self._single("int")))
