"""int8 tensor cores with int32 accumulators."""

from widen.units.unit import Unit

# -128 is a legal entry, so budget 2^14 a product: 2^17 - 1 of them fit an int32.
INT8 = Unit(
    name="int8",
    digit=128,
    exact=2**31 - 1,
    span=2**16,
    engine="float64",
    native=False,
    note="int8 tensor cores with int32 accumulators",
)
