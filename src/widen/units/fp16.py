"""FP16 tensor cores with float32 accumulation."""

from widen.units.unit import Unit

# FP16 holds every integer up to 2048; float32 sums are exact up to 2^24, which over 1024
# products means entries up to 128.
FP16 = Unit(
    name="fp16",
    digit=2048,
    exact=2**24,
    span=1024,
    engine="float32",
    native=False,
    note="FP16 tensor cores with float32 accumulation",
)
