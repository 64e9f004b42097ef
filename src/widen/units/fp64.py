"""float64 BLAS (dgemm)."""

from widen.units.unit import Unit

# float64 sums are exact up to 2^53, so entries shrink as the inner dimension grows: 21 bits
# at k = 2048. They stop at 2^22 because encoding multiplies 27-bit halves by residues in float64.
FP64 = Unit(
    name="fp64",
    digit=2**22,
    exact=2**53,
    span=2**29,
    engine="float64",
    native=True,
    note="float64 BLAS (dgemm)",
)
