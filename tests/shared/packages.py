"""Packages installed in an empty environment: `make test-package` and `make test-wheel`.

`python tests/shared/packages.py FILE … --folder build/package` makes an environment with nothing in
it, installs one file after the other (a source package or a wheel), and looks at each. `--packs 80
90` demands machine code for these architectures in the wheel, every piece of it whole.
"""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

LARGEST = 40_000_000
"""Bytes of a wheel with machine code for all architectures."""


def pack_faults(folder, architectures):
    """What is wrong with the machine code that came with a package."""
    from widen.stages.compiling.packs import Pack

    wrong = []
    for architecture in architectures:
        pack = Pack(folder / f"sm_{architecture}.pack")
        damaged = [key for key in pack.index if pack.get(key) is None]
        if not pack.index:
            wrong.append(f"there is no machine code for sm_{architecture}")
        elif damaged:
            wrong.append(
                f"{len(damaged)} of {len(pack.index)} kernels for sm_{architecture} are damaged"
            )
    return wrong


def look(architectures):
    """Look at the widen that is installed here, and nowhere else."""
    import numpy as np

    import widen

    home = Path(widen.__file__)
    assert home.is_relative_to(sys.prefix), f"{home} is not installed in {sys.prefix}"
    a, ones = np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))
    assert widen.matmul(a, ones, accuracy="correct") == 1
    assert widen.linalg.solve(np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(2)).tolist() == [0.4, 0.2]
    assert str(widen.Words(["1/3"], "float64x2") * 3) == "[1.0]"
    wrong = pack_faults(home.parent / "gpu" / "shipped", architectures)
    assert not wrong, "; ".join(wrong)
    command = Path(sys.executable).with_name("widen")
    subprocess.run([command, "demo"], check=True, stdout=subprocess.DEVNULL)
    print(f"widen {widen.__version__} runs in {sys.prefix}, packs for {architectures}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="*", help="source packages and wheels")
    parser.add_argument("--folder", type=Path, default=Path("build/package"))
    parser.add_argument("--packs", type=int, nargs="*", default=[])
    parser.add_argument("--look", action="store_true", help="look at what is installed here")
    given = parser.parse_args()
    if given.look:
        look(given.packs)
        return
    if not given.files:
        parser.error("no package was given: make wheel builds one")
    home = given.folder.resolve() / "venv"
    venv.create(home, clear=True, with_pip=True)
    python = str(home / "bin" / "python")
    packs = ["--packs", *map(str, given.packs)] if given.packs else []
    for file in given.files:
        size = file.stat().st_size
        assert size < LARGEST, f"{file} has {size / 1e6:.1f} MB; the limit is {LARGEST / 1e6:.0f}"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # The second file has the version of the first, and replaces it.
        again = ["--force-reinstall", "--no-deps"] if file != given.files[0] else []
        subprocess.run([*install, *again, str(file.resolve())], check=True)
        print(f"{file.name}, {size / 1e6:.1f} MB: ", end="", flush=True)
        # -I: nothing of this folder or of the environment's settings is seen.
        look_here = [python, "-I", str(Path(__file__).resolve()), "--look", *packs]
        subprocess.run(look_here, check=True, cwd=given.folder)


if __name__ == "__main__":
    main()
