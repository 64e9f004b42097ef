"""float32 BLAS (sgemm)."""

from widen.units.unit import Unit

# float32 sums are exact up to 2^24: over 1024 products, entries up to 128.
FP32 = Unit(
    name="fp32",
    digit=4096,
    exact=2**24,
    span=1024,
    engine="float32",
    native=True,
    note="float32 BLAS (sgemm)",
)
