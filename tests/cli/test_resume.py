"""Products in files that survive an interruption: `widen matmul --resume`, within little memory."""

from __future__ import annotations

import fcntl
import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import widen
from widen.cli import main, resume


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with A (1000, 40) and B (40, 30): four panels."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "A.npy", rng.standard_normal((1000, 40)))
    np.save(tmp_path / "B.npy", rng.standard_normal((40, 30)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def matmul(*words):
    return main(["matmul", "A.npy", "B.npy", "-o", "C.npy", "--resume", *words])


def product():
    return widen.matmul(np.load("A.npy"), np.load("B.npy"))


def interrupted(monkeypatch, after, error=KeyboardInterrupt):
    """Run a product that ends when so many panels are finished."""
    compute = widen.matmul
    panels = []

    def counted(left, *given, **named):
        if named.get("info"):
            panels.append(left.shape)
            if len(panels) > after:
                raise error
        return compute(left, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(widen, "matmul", counted)
        matmul()
    return panels


def test_a_product_that_is_not_interrupted(folder, capsys):
    assert matmul() == 0
    assert np.load("C.npy").tobytes() == product().tobytes()
    assert sorted(path.name for path in folder.iterdir()) == ["A.npy", "B.npy", "C.npy"]
    said = capsys.readouterr().out
    assert "1000 x 40 times 40 x 30" in said
    assert "error   at most" in said


@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_what_was_finished_is_not_computed_again(folder, monkeypatch, after, capsys):
    interrupted(monkeypatch, after)
    if after < 4:
        assert not Path("C.npy").exists()
        record = json.loads(Path(".C.npy.part.json").read_text())
        assert [panel["start"] for panel in record["panels"]] == [0, 256, 512, 768][:after]
    else:
        assert Path("C.npy").exists()
        Path("C.npy").unlink()
    again = interrupted(monkeypatch, 99)
    assert len(again) == (4 if after in (0, 4) else 4 - after)
    assert np.load("C.npy").tobytes() == product().tobytes()
    _, info = widen.matmul(np.load("A.npy"), np.load("B.npy"), info="largest")
    assert f"at most {info.bound:.2e}" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["A.npy", "B.npy", "C.npy"]


def test_an_old_result_stays_until_the_new_one_is_whole(folder, monkeypatch):
    Path("C.npy").write_bytes(b"old")
    interrupted(monkeypatch, 2)
    assert Path("C.npy").read_bytes() == b"old"
    assert matmul() == 0
    assert np.load("C.npy").tobytes() == product().tobytes()


def said(capsys):
    status, text = matmul(), capsys.readouterr().err
    assert status == 2
    assert text.count("\n") == 1
    return text


def test_damaged_and_foreign_records_are_refused(folder, monkeypatch, capsys):
    interrupted(monkeypatch, 2)
    capsys.readouterr()
    record = Path(".C.npy.part.json")
    good = record.read_text()
    record.write_text(good[:-20])
    assert "damaged" in said(capsys)
    record.write_text(good.replace('"repaired": 0', '"repaired": 1'))
    assert "damaged (its own checksum differs)" in said(capsys)
    record.write_text("[]")
    assert "damaged" in said(capsys)
    record.write_text(good)
    status = main(["matmul", "A.npy", "B.npy", "-o", "C.npy", "--resume", "--accuracy", "correct"])
    text = capsys.readouterr().err
    assert status == 2
    assert "of another product (accuracy standard there, correct here)" in text
    a = np.load("A.npy")
    np.save("A.npy", -a)
    assert "of another product (a " in said(capsys)
    np.save("A.npy", a)
    part = bytearray(Path(".C.npy.part").read_bytes())
    part[200] ^= 1
    Path(".C.npy.part").write_bytes(part)
    assert "is damaged between 0 and 256" in said(capsys)
    part[200] ^= 1
    Path(".C.npy.part").unlink()
    assert "missing or damaged" in said(capsys)
    np.save(".C.npy.part.npy", np.zeros(3))
    Path(".C.npy.part.npy").rename(".C.npy.part")
    assert "holds (3,) float64" in said(capsys)
    assert not Path("C.npy").exists()
    Path(".C.npy.part").write_bytes(part)
    assert matmul() == 0
    assert np.load("C.npy").tobytes() == product().tobytes()


def test_what_ended_between_its_last_two_steps(folder, capsys):
    """The product is there, and its record still is: nothing is left to do but to remove that."""
    np.save("A.npy", np.load("A.npy")[:300])
    record, unlink = Path(".C.npy.part.json"), Path.unlink
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Path, "unlink",
            lambda path, **how: None if path.name == record.name else unlink(path, **how),
        )  # fmt: skip
        assert matmul() == 0
    kept, whole = record.read_bytes(), Path("C.npy").read_bytes()
    assert matmul() == 0
    assert Path("C.npy").read_bytes() == whole
    assert not record.exists()
    record.write_bytes(kept)
    Path("C.npy").write_bytes(whole[:-1] + b"?")  # another file of that name
    assert "missing or damaged" in said(capsys)


def test_two_processes_do_not_work_on_one_product(folder, capsys, monkeypatch):
    path, taken = Path(".C.npy.part.json"), []
    with resume._alone(path):
        assert "another process computes" in said(capsys)
    lock = fcntl.flock

    def late(file, how):
        """Somebody else removes the file that was opened, as who has finished does."""
        if not taken:
            Path(".C.npy.part.json.lock").unlink()
        taken.append(file)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with resume._alone(path):
        assert len(taken) == 2
        assert "another process computes" in said(capsys)
    assert matmul() == 0


def test_standard_output_has_no_place_for_panels(folder, capsys):
    status = main(["matmul", "A.npy", "B.npy", "-o", "-", "--resume"])
    assert status == 2
    assert "--resume needs a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 3, 4), (4, 2)), ((3, 4), (6, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 700)),
     ((700, 4), (4,)), ((4,), (4,)), ((0, 4), (4, 3)), ((3, 0), (0, 3)), ((1, 3, 4), (5, 4, 2))],
    ids=str,
)  # fmt: skip
def test_panels_of_every_shape(folder, left, right):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal(left).astype(np.float32), rng.standard_normal(right)
    np.save("A.npy", np.asfortranarray(a))
    np.save("B.npy", b)
    assert matmul() == 0
    want = np.asarray(widen.matmul(a, b))
    got = np.load("C.npy")
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def test_checksums_are_of_numbers_and_shapes():
    x = np.arange(24.0).reshape(4, 6)
    assert resume.checksum(x) == resume.checksum(np.asfortranarray(x))
    assert resume.checksum(x) != resume.checksum(x.reshape(6, 4))
    assert resume.checksum(x) != resume.checksum(x.view(np.int64))
    assert resume.checksum(np.array(1.0)) != resume.checksum(np.array(2.0))


LIMITED = """
import resource, sys
import numpy as np, widen
from pathlib import Path
widen.matmul(np.ones((64, 600)), np.ones((600, 64)), info="largest")    # threads and kernels
status = Path("/proc/self/status").read_text().splitlines()
data = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (data + int(sys.argv[1]), resource.RLIM_INFINITY))
try:
    np.load("A.npy"), np.load("B.npy")
except MemoryError:
    print("operands do not fit", flush=True)
from widen.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_killed_at_random_moments_until_it_is_done(tmp_path, monkeypatch):
    """Between and within panels, records and the last rename: no half of a result is ever seen."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    np.save("A.npy", rng.standard_normal((8000, 200)))
    np.save("B.npy", rng.standard_normal((200, 100)))
    want = hashlib.sha256(product().tobytes()).hexdigest()
    command = [sys.executable, "-m", "widen", "matmul", "A.npy", "B.npy", "-o", "C.npy", "--resume",
               "--accuracy", "standard"]  # fmt: skip
    record, kills = Path(".C.npy.part.json"), 0
    for _ in range(5):
        before = record.read_bytes() if record.exists() else b""
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and run.poll() is None:
            if record.exists() and record.read_bytes() != before:
                time.sleep(rng.uniform(0, 0.03))
                run.kill()
                break
            time.sleep(0.001)
        if run.wait() == 0:
            break
        kills += 1
        if Path("C.npy").exists():  # it was killed after the last step
            break
    else:
        assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert kills > 1
    assert hashlib.sha256(np.load("C.npy").tobytes()).hexdigest() == want


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_killed_half_way_with_operands_larger_than_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    np.save("A.npy", rng.standard_normal((1536, 6000)))
    np.save("B.npy", rng.standard_normal((6000, 1024)))
    assert Path("A.npy").stat().st_size + Path("B.npy").stat().st_size > 120e6
    words = ["matmul", "A.npy", "B.npy", "-o", "C.npy", "--resume", "--workspace", "24MB"]
    command = [sys.executable, "-c", LIMITED, str(80 * 10**6), *words]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    record, deadline = Path(".C.npy.part.json"), time.monotonic() + 300
    while time.monotonic() < deadline and first.poll() is None:
        if record.exists() and record.read_text().count('"start"') >= 2:
            break
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert "operands do not fit" in first.stdout.read()
    assert not Path("C.npy").exists()
    before = json.loads(record.read_text())["panels"]
    assert 2 <= len(before) < 6
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A.npy", "B.npy", "C.npy"]
    digest = hashlib.sha256(np.load("C.npy").tobytes()).hexdigest()
    want = widen.matmul(np.load("A.npy"), np.load("B.npy"))
    assert digest == hashlib.sha256(want.tobytes()).hexdigest()
