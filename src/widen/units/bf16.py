"""BF16 tensor cores with float32 accumulation."""

from widen.units.unit import Unit

# bfloat16 holds every integer up to 256; float32 sums are exact up to 2^24, which over 1024
# products means entries up to 128.
BF16 = Unit(
    name="bf16",
    digit=256,
    exact=2**24,
    span=1024,
    engine="float32",
    native=False,
    note="BF16 tensor cores with float32 accumulation",
)
