"""What goes wrong with a system: it is singular, or nothing could be proven about it."""

from __future__ import annotations

import numpy as np


class SingularMatrixError(np.linalg.LinAlgError):
    """The matrix is singular, and that is proven; the message says how it was found.

    >>> import numpy as np, widen
    >>> try:
    ...     widen.linalg.solve(np.ones((2, 2)), np.ones(2))
    ... except widen.linalg.SingularMatrixError:
    ...     print("no solution, proven")
    no solution, proven
    """


class NotProvenError(np.linalg.LinAlgError):
    """No answer could be proven; the message says how far the proof came, and what to try.

    >>> import numpy as np, widen
    >>> issubclass(widen.linalg.NotProvenError, np.linalg.LinAlgError)
    True
    """
