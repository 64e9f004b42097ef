"""The shape of a product, by the rules of `np.matmul`."""

import numpy as np

from widen.cli.errors import CommandError

Shape = tuple[int, ...]


def product_shape(a: Shape, b: Shape, names: tuple[str, str] = ("a", "b")) -> Shape:
    """Return the shape of a product of arrays of these shapes.

    >>> product_shape((5, 1, 2, 3), (7, 3, 4))
    (5, 7, 2, 4)
    >>> product_shape((3,), (3,))
    ()
    """
    for name, shape in zip(names, (a, b), strict=True):
        if not shape:
            raise CommandError(f"{name} holds a single number: give a vector or a matrix")
    rows = a[-2:-1]  # () for a vector
    inner, *columns = b[-2:]
    if a[-1] != inner:
        raise CommandError(
            f"{names[0]} is {words(a)} and {names[1]} is {words(b)}: the inner dimensions "
            f"{a[-1]} and {inner} must be equal; was one meant transposed?"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise CommandError(
            f"{names[0]} is {words(a)} and {names[1]} is {words(b)}: the batch dimensions "
            f"{a[:-2]} and {b[:-2]} must be equal or 1"
        ) from error
    return (*batch, *rows, *columns)


def words(shape: Shape) -> str:
    """Return a shape as people write it.

    >>> words((3, 4)), words((5,)), words(())
    ('3×4', 'a vector of 5', 'a single number')
    """
    if len(shape) == 1:
        return f"a vector of {shape[0]}"
    return "×".join(map(str, shape)) or "a single number"
