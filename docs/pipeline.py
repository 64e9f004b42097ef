"""Draws docs/pipeline.svg, the stages of a product in both wings: `python docs/pipeline.py`."""

from __future__ import annotations

from pathlib import Path

WIDTH, HEIGHT = 1150, 560
LEFT, COLUMN, BOX = 172, 160, 140
"""Where columns begin, how far apart they are, and how wide a box is."""

STAGES = [  # verb, what it makes; the four stages have a number
    ("1  quantise", "rows and columns", "scaled to integers"),
    ("certify", "contract kept?", "marks what is open"),
    ("2  encode", "planes of", "small integers"),
    ("3  multiply", "planes × planes,", "without any error"),
    ("4  reconstruct", "the exact integer,", "rounded once"),
    ("repair", "marked elements", "exactly"),
]
PASSED = ["exponents", "", "planes", "groups", "result"]
"""What goes from one box to the next; marks go by another way."""

WINGS = [
    ("CPU wing", "NumPy, Numba, BLAS", "cpu", [
        ("cpu/lines.py", "…/kernels/lines.py"),
        ("cpu/certify.py", "…/kernels/certify.py"),
        ("cpu/encode.py", "…/kernels/encode.py"),
        ("cpu/multiply.py", "BLAS: np.matmul"),
        ("cpu/reconstruct.py", "…/kernels/reconstruct.py"),
        ("cpu/repair.py", "…/kernels/repair.py"),
    ]),
    ("GPU wing", "PyTorch, Triton, CUDA", "gpu", [
        ("gpu/lines.py", "…/triton/lines.py"),
        ("gpu/certify.py", "…/cuda/certify.py"),
        ("gpu/encode.py", "…/triton/encode.py"),
        ("gpu/multiply.py", "…/cuda/multiply.py"),
        ("gpu/reconstruct.py", "…/triton/reconstruct.py"),
        ("gpu/repair.py", "…/triton/repair.py"),
    ]),
]  # fmt: skip

STYLE = """
  text { font-family: system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif;
         font-size: 13px; fill: #1f2328; }
  .page { fill: #ffffff; }
  .head { font-weight: 600; font-size: 15px; }
  .small { font-size: 12px; fill: #59636e; }
  .code { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
          font-size: 11.5px; }
  .kernel { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
            font-size: 9.5px; fill: #59636e; }
  .band { fill: #f6f8fa; stroke: #d1d9e0; }
  .stage { fill: #ddf4ff; stroke: #0969da; }
  .check { fill: #fff8c5; stroke: #9a6700; stroke-dasharray: 4 3; }
  .cpu { fill: #dafbe1; stroke: #1a7f37; }
  .gpu { fill: #fbefff; stroke: #8250df; }
  .line { stroke: #59636e; fill: none; stroke-width: 1.5; }
  .tip { fill: #59636e; }
"""
DARK = """
  text { fill: #f0f6fc; }
  .page { fill: #0d1117; }
  .small, .kernel { fill: #9198a1; }
  .band { fill: #151b23; stroke: #3d444d; }
  .stage { fill: #0c2d4d; stroke: #4493f8; }
  .check { fill: #3b2f0b; stroke: #d29922; }
  .cpu { fill: #0f3320; stroke: #3fb950; }
  .gpu { fill: #2d1a47; stroke: #ab7df8; }
  .line { stroke: #9198a1; }
  .tip { fill: #9198a1; }
"""


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rectangle of one of the classes of STYLE."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Words, which `anchor` puts at, before or after (x, y)."""
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def arrow(path: str, x: float, y: float, down: bool = False) -> str:
    """A line with its tip at (x, y), to the right or down."""
    tip = f"{x - 4},{y - 7} {x + 4},{y - 7}" if down else f"{x - 7},{y - 4} {x - 7},{y + 4}"
    return f'<path class="line" d="{path}"/><polygon class="tip" points="{x},{y} {tip}"/>'


def drawn() -> str:
    """The picture."""
    middle = [LEFT + COLUMN * at + BOX / 2 for at in range(len(STAGES))]
    right = middle[-1] + BOX / 2
    parts = [f'<rect class="page" x="0" y="0" width="{WIDTH}" height="{HEIGHT}"/>']

    # The call.
    parts += [box(8, 20, right, 44, "band")]
    parts += [text(20, 47, "A call", "head", "start")]
    steps = [("widen.matmul(a, b)", 242), ("api.py", 400), ("calls/", 520), ("Problem", 645)]
    steps += [("stages/run.py", 790)]
    for at, (words, x) in enumerate(steps):
        parts.append(text(x, 47, words, "code"))
        if at:
            before, x0 = steps[at - 1]
            start, end = x0 + len(before) * 3.6 + 8, x - len(words) * 3.6 - 8
            parts.append(arrow(f"M{start} 43 H{end - 6}", end, 43))
    parts.append(text(right - 14, 47, "calls the verbs below, block by block", "small", "end"))

    # The verbs.
    top, height = 130, 84
    for (verb, first, second), x in zip(STAGES, middle, strict=True):
        parts.append(box(x - BOX / 2, top, BOX, height, "stage" if verb[0].isdigit() else "check"))
        parts.append(text(x, top + 26, verb, "head"))
        parts.append(text(x, top + 49, first, "small"))
        parts.append(text(x, top + 66, second, "small"))
    for at, x in enumerate(middle[:-1]):
        end = middle[at + 1] - BOX / 2
        parts.append(arrow(f"M{x + BOX / 2} {top + 42} H{end - 6}", end, top + 42))
        parts.append(text((x + BOX / 2 + end) / 2, top + height + 17, PASSED[at], "small"))
    certify, repair = middle[1], middle[-1]
    curve = f"M{certify} {top} V{top - 26} H{repair} V{top - 7}"
    parts.append(arrow(curve, repair, top, down=True))
    parts.append(text((certify + repair) / 2, top - 33, "marks: elements not yet final", "small"))
    parts.append(text(20, top + 34, "The verbs", "head", "start"))
    parts.append(text(20, top + 54, "stages/backend.py", "kernel", "start"))

    # The wings.
    for row, (title, libraries, kind, files) in enumerate(WINGS):
        y = 262 + row * 104
        parts.append(box(8, y, right, 92, "band"))
        parts.append(text(20, y + 32, title, "head", "start"))
        parts.append(text(20, y + 51, libraries, "small", "start"))
        parts.append(text(20, y + 70, f"{kind}/stages.py", "kernel", "start"))
        for (host, kernel), x in zip(files, middle, strict=True):
            parts.append(box(x - BOX / 2, y + 14, BOX, 64, kind))
            parts.append(text(x, y + 40, host, "code"))
            parts.append(text(x, y + 61, kernel, "kernel"))

    # The definition.
    y = 470
    parts.append(box(8, y, right, 50, "band"))
    parts.append(text(20, y + 31, "Definition", "head", "start"))
    words = "definition.py: the same verbs in Python integers. Both wings must give its bits."
    parts.append(text((LEFT + right) / 2, y + 30, words))
    parts.append(text(8, HEIGHT - 14, "Blue: the four stages. Yellow: what keeps the contract. In "
                      "each box of a wing: the host file, and below it what it launches.",
                      "small", "start"))  # fmt: skip
    media = f"@media (prefers-color-scheme: dark) {{{DARK}}}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="The stages of a product on a CPU and on a GPU">\n'
        f"<style>{STYLE}{media}</style>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawn(), encoding="utf-8")
