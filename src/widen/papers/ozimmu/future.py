"""What paper 002 leaves open: inner dimensions beyond 2^17, cut in blocks that keep 7 bits."""

from __future__ import annotations

from itertools import product as pairs_of
from statistics import geometric_mean

from widen.papers.items import Claim, Figure, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.ozimmu.accuracy import Case, steps
from widen.papers.ozimmu.algorithm import ozimmu, slice_bits


def long_inner(setting: Setting) -> Outcome:
    """Errors beyond n = 2^17, with and without blocks of the inner dimension."""
    m, draws = setting.choose((4, 3), full=(16, 5), quick=(2, 1))
    powers = setting.choose([16, 17, 18, 19], full=[16, 17, 18, 19, 20, 21], quick=[17, 18])
    ways = {"ozIMMU-7": ("ozimmu", 7), "ozIMMU_H-7": ("h", 7), "ozIMMU_H-8": ("h", 8)}
    errors: dict[tuple[int, str], float] = {}
    for power in steps(setting, powers):
        cases = [Case(setting, m, 1 << power, 0.0, draw) for draw in range(draws)]
        for (name, (variant, k)), block in pairs_of(ways.items(), (None, 1 << 17)):
            products = [ozimmu(case.a, case.b, k, variant, k_block=block) for case in cases]
            wrong = [case.errors(c)[1] for case, c in zip(cases, products, strict=True)]
            errors[power, name + (", blocks" if block else "")] = geometric_mean(wrong)
        setting.machine.free()
    names = list(dict.fromkeys(name for _, name in errors))
    rows = [[1 << power, slice_bits(1 << power), *(errors[power, x] for x in names)]
            for power in powers]  # fmt: skip
    panel = Panel(
        "Without blocks slices lose bits beyond n = 2^17",
        "log2 n",
        "error / |A||B|",
        [Series(name, powers, [errors[power, name] for power in powers],
                "line" if "blocks" in name else "dashed", colour=at // 2)
         for at, name in enumerate(names)],
        log_y=True,
    )  # fmt: skip
    claims = block_claims(errors, f"φ = 0, {m} rows and columns, {draws} draws")
    remark = f"Products of {m} rows and columns; blocks of 2^17, each a product of its own."
    return Outcome(["n", "β", *names], rows, claims, Figure([panel], 1), [remark])


def block_claims(errors: dict[tuple[int, str], float], setup: str) -> list[Claim]:
    """What n > 2^17 does to ozIMMU-7, and that blocks undo it; errors by log2 n and method.

    A bit less of a slice costs seven slices seven bits, a factor of 128; two bits are none.
    """
    powers = sorted({power for power, _ in errors})
    beyond = [power for power in powers if power > 17]
    whole = [errors[power, "ozIMMU-7"] / errors[17, "ozIMMU-7"] for power in beyond]
    blocks = [
        errors[power, name] / errors[17, name.removesuffix(", blocks")]
        for power, name in errors
        if power in beyond and name.endswith(", blocks")
    ]
    return [
        Claim(
            sentence="The accuracy deteriorated for n > 2^17 because β is less than 7",
            where="section 4.1, figure 5",
            paper="deteriorated",
            ours=f"against |A||B| the error of ozIMMU-7 is {min(whole):.0f} to {max(whole):.0f} "
            "times that at 2^17",
            setup=setup,
            verdict=verdict_of(min(whole) > 10),
        ),
        Claim(
            sentence="Blocks of 2^17 keep β = 7 and the accuracy, however long the inner dimension",
            where="our addition to section 4.1",
            paper="–",
            ours=f"at most {max(blocks):.2f} times the error at 2^17, up to n = 2^{powers[-1]}",
            setup=setup,
            verdict=verdict_of(max(blocks) < 4),
            future=True,
        ),
    ]
