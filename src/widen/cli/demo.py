"""`widen demo`: the ordinary product against widen, where the ordinary one loses digits."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from widen.cli.cases import Case, Matrix, Product, Score

ROWS_ALONE = 20
SPEED_SIZE = 512


def demo() -> None:
    """Compare NumPy's product with widen's on matrices that cost the ordinary one its digits.

    Takes less than a minute. Every number is checked against exact integer arithmetic.
    """
    from widen.cli.cases import cases
    from widen.cli.progress import compiling_told
    from widen.cli.results import screen

    console = screen(80)
    status = console.status("multiplying ...")

    def show(text: str | None) -> None:
        status.update(text or "multiplying ...")

    with status, compiling_told(show if console.is_terminal else None):
        speed(64)  # compiles, or reads what was compiled before
        scores = [(case, scores_of(case)) for case in cases()]
        changed = changed_bits()
        seconds, plan = speed()
        digits = digits_of_words()
        systems = digits_of_systems()
    console.print(accuracy_table(scores))
    console.print(
        "[bold]More words.[/bold] P Q - P (Q + 2^-60 T) as one product of random 40×400 and "
        "400×40 matrices; correct digits of the worst element: "
        + ", ".join(f"{name} {count:.0f}" for name, count in digits.items())
        + ".\n"
    )
    console.print(
        "[bold]Linear systems.[/bold] Correct digits of the worst element of the solution: "
        + "; ".join(
            f"{name}: NumPy {numpy:.1f}, widen.linalg.solve {'all' if exact else 'not all'}"
            for name, (numpy, exact) in systems.items()
        )
        + ".\n"
    )
    console.print(
        f"[bold]Same bits?[/bold] {ROWS_ALONE} rows of the first matrix multiplied alone, of "
        f"{ROWS_ALONE * 300} elements: "
        + ", ".join(f"{name} changes {count}" for name, count in changed.items())
        + ".\n"
    )
    console.print(
        f"[bold]Time[/bold] at n = {SPEED_SIZE}: "
        + ", ".join(f"{name} {1e3 * time:.1f} ms" for name, time in seconds.items())
        + ". What the last one runs:"
    )
    console.print(plan, markup=False)
    console.print(
        "\n[bold]In words.[/bold] How many digits NumPy gets depends on the data, and its last "
        "bits on what is multiplied beside them. "
        'widen.matmul(a, b, accuracy="correct") returns the float64 nearest to the exact value, '
        'always. The default, "standard", costs less and promises less: an error that is small '
        "next to |A||B|, which is not small next to a result that cancels. Both return the same "
        "bits every time."
    )


def products() -> "dict[str, Product]":
    """Return the products that are compared, by the name of their column."""
    import numpy as np

    import widen

    def ordinary(a: "Matrix", b: "Matrix") -> "Matrix":
        with np.errstate(all="ignore"):
            product: Matrix = np.matmul(a, b)
        return product

    def standard(a: "Matrix", b: "Matrix") -> "Matrix":
        return np.asarray(widen.matmul(a, b))

    def correct(a: "Matrix", b: "Matrix") -> "Matrix":
        return np.asarray(widen.matmul(a, b, accuracy="correct"))

    return {"NumPy": ordinary, "widen standard": standard, "widen correct": correct}


def scores_of(case: "Case") -> "dict[str, Score]":
    """Return the score of every product on a case."""
    from widen.cli.cases import score

    return {name: score(product, case) for name, product in products().items()}


def changed_bits() -> dict[str, int]:
    """Return how many elements change when their row is multiplied alone, for every product."""
    from widen.cli.cases import cases, elements_that_change

    first = cases()[0]
    return {
        name: elements_that_change(product, first.a, first.b, ROWS_ALONE)
        for name, product in products().items()
    }


def digits_of_words() -> dict[str, float]:
    """Return correct digits of a product that float64 cannot even be given, in its numbers."""
    import numpy as np

    import widen
    from widen.cli.cases import SEED, worst_digits

    random = np.random.default_rng(SEED)
    p, q, t = random.random((40, 200)), random.random((200, 40)), random.random((200, 40))
    a = np.hstack([p, -p])
    first, second = np.vstack([q, q]), np.vstack([0 * t, t * 2.0**-60])
    b = widen.Words.from_words(np.stack([first, second]), widen.float64x2)
    products = {
        "NumPy": [a @ b.to_numpy()],
        "widen float64x2": list(widen.matmul(a, b).words),
        'float64x2 "correct"': list(widen.matmul(a, b, accuracy="correct").words),
    }
    return {name: worst_digits(words, p, t, -(2.0**-60)) for name, words in products.items()}


def digits_of_systems() -> dict[str, tuple[float, bool]]:
    """Return NumPy's correct digits of solutions, and whether widen's are the nearest floats."""
    import numpy as np

    import widen
    from widen.cli.systems import exact_solution, systems

    digits = {}
    for name, a, b in systems():
        exact = exact_solution(a, b)
        wrong = max(
            abs(float((Fraction(float(x)) - q) / q))
            for x, q in zip(np.linalg.solve(a, b), exact, strict=True)
        )
        ours = widen.linalg.solve(a, b)
        is_nearest = all(float(q) == float(x) for x, q in zip(ours, exact, strict=True))
        digits[name] = (max(0.0, -math.log10(wrong)) if wrong else 16.0, is_nearest)
    return digits


def speed(n: int = SPEED_SIZE) -> tuple[dict[str, float], str]:
    """Return the best time of every product of two n×n matrices, and the plan of "correct"."""
    from time import perf_counter

    import numpy as np

    import widen
    from widen.cli.cases import SEED

    random = np.random.default_rng(SEED)
    a, b = random.standard_normal((2, n, n))
    seconds = {}
    for name, product in products().items():
        times = []
        for _ in range(4):
            started = perf_counter()
            product(a, b)
            times.append(perf_counter() - started)
        seconds[name] = min(times)
    return seconds, str(widen.plan(a, b, accuracy="correct"))


def accuracy_table(scores: "list[tuple[Case, dict[str, Score]]]") -> "Table":
    """Return the table of digits."""
    from rich import box
    from rich.table import Table

    checked = next(iter(scores[0][1].values())).checked
    table = Table(
        box=box.ROUNDED,
        show_lines=True,
        title="Correct decimal digits of the worst element",
        caption=f"{checked} elements of each checked exactly; off: not the nearest float64",
    )
    table.add_column("what is multiplied", ratio=1)
    for name in scores[0][1]:
        table.add_column(name, justify="right", no_wrap=True)
    for case, row in scores:
        cells = [cell(score) for score in row.values()]
        table.add_row(f"[bold]{case.name}[/bold]\n{case.why}", *cells)
    return table


def cell(score: "Score") -> str:
    """Return a score as the three lines of its cell."""
    if not score.finite:
        digits = "[red]NaN or Inf[/red]"
    elif score.wrong == 0:
        digits = "[green]all digits[/green]"
    else:
        colour = "red" if score.digits < 6 else "yellow"
        digits = f"[{colour}]{abs(score.digits):.1f} digits[/{colour}]"
    return f"{digits}\n{score.wrong} off\n{1e3 * score.seconds:.1f} ms"
