"""FP8 (E4M3) tensor cores."""

from widen.units.unit import Unit

# E4M3 holds every integer up to 16. Hopper keeps about 14 bits of a sum, so 64 products of
# largest digits are exact and then the sum must leave the tensor core.
FP8 = Unit(
    name="fp8",
    digit=16,
    exact=2**14,
    span=64,
    engine="float32",
    native=False,
    note="FP8 (E4M3) tensor cores",
)
