"""An orbit in double double: back to where it began, to 30 digits.

A comet on an ellipse of eccentricity 1/4 returns after one period of 2 pi. Every step is a Taylor
series: 48 coefficients, each a sum of products of those before it. The function `orbit` does not
know what its numbers are. With float64 it is as good as rounding lets it be. With `widen.Words` of
two words, 32 digits, it goes on.

It prints (~ marks what depends on NumPy's BLAS):

    float64:   back to within ~3e-14
    float64x2: back to within 3e-31
"""

import mpmath
import numpy as np

import widen

STEPS, ORDER = 28, 48


def product(x, y, k):
    """Coefficient k of the product of two series."""
    return x[: k + 1].dot(y[: k + 1][::-1])


def step(position, velocity, time):
    """Position and velocity after some time.

    With r the distance and s = r^-3 the acceleration is -s times the position. The coefficients of
    s follow from those of r², because r² s' = -3/2 (r²)' s.
    """
    x, y, squared, s = (np.zeros(ORDER + 1) * time for _ in range(4))  # zeros of either kind
    (x[0], y[0]), (x[1], y[1]) = position, velocity
    for k in range(ORDER - 1):
        squared[k] = product(x, x, k) + product(y, y, k)
        if k == 0:
            s[0] = 1 / (squared[0] * squared[0] ** 0.5)
        else:
            weighted = s[:k] * (np.arange(k) - 3.0 * k)
            s[k] = weighted.dot(squared[1 : k + 1][::-1]) / (squared[0] * (2 * k))
        x[k + 2] = -product(x, s, k) / ((k + 1) * (k + 2))
        y[k + 2] = -product(y, s, k) / ((k + 1) * (k + 2))
    powers = np.ones(ORDER + 1) + time * 0
    for k in range(ORDER):
        powers[k + 1] = powers[k] * time
    orders = np.arange(1.0, ORDER + 1)
    position = x.dot(powers), y.dot(powers)
    return position, ((x[1:] * orders).dot(powers[:-1]), (y[1:] * orders).dot(powers[:-1]))


def orbit(speed, period):
    """How far from its start the comet is after one period."""
    start = speed * 0 + 0.75, speed * 0
    position, velocity = start, (speed * 0, speed)
    for _ in range(STEPS):
        position, velocity = step(position, velocity, period / STEPS)
    return max(abs(float(position[axis] - start[axis])) for axis in (0, 1))


wide = {"dtype": widen.float64x2}
print(f"float64:   back to within ~{orbit(np.sqrt(5 / 3), 2 * np.pi):.0e}")
distance = orbit(widen.Words("5/3", **wide) ** 0.5, widen.Words(mpmath.pi, **wide) * 2)
print(f"float64x2: back to within {distance:.0e}")
