"""What goes wrong with a system: it is singular, or nothing could be proven about it."""

from __future__ import annotations

import numpy as np


class SingularMatrixError(np.linalg.LinAlgError):
    """The matrix is singular, and that is proven; the message says how it was found."""


class NotProvenError(np.linalg.LinAlgError):
    """No answer could be proven; the message says how far the proof came, and what to try."""
