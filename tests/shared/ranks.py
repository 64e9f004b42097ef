"""Processes that stay: started once, joined by gloo or NCCL, they run functions for many tests."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

SECONDS = 240


def _serve(rank, world, store, timeout, backend, pipe):
    """Run what comes through the pipe until nothing comes."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import numba
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    numba.set_num_threads(1)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=world,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    while True:
        task = pipe.recv()
        if task is None:
            break
        function, arguments = task
        try:
            pipe.send((True, function(*arguments)))
        except Exception as error:
            said = traceback.format_exc()
            pipe.send((False, (type(error).__name__, str(error), said)))
    dist.destroy_process_group()


class Ranks:
    """So many processes, each of which runs what it is told."""

    def __init__(self, world, timeout=120.0, backend="gloo"):
        self.world = world
        self.folder = tempfile.TemporaryDirectory()
        # Divided from one process that has imported what takes seconds, where a system has that.
        whole = "forkserver" in multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if whole else "spawn")
        if whole:
            context.set_forkserver_preload(["torch.distributed.tensor", "widen.distributed"])
        store = str(Path(self.folder.name) / "store")
        self.pipes, self.processes = [], []
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, world, store, timeout, backend, theirs), daemon=True
            )
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def start(self, function, *arguments):
        """Have a function run by every process."""
        for pipe in self.pipes:
            pipe.send((function, arguments))

    def answers(self, seconds=SECONDS):
        """(True, value) or (False, (name of the error, its message, traceback)) of each."""
        found = []
        for rank, pipe in enumerate(self.pipes):
            try:
                if not pipe.poll(seconds):
                    raise TimeoutError(f"rank {rank} does not answer")
                found.append(pipe.recv())
            except EOFError:
                found.append((None, "stopped"))
        return found

    def run(self, function, *arguments):
        """What a function gives in every process."""
        self.start(function, *arguments)
        found = self.answers()
        for good, value in found:
            assert good, value[2] if good is False else value
        return [value for _, value in found]

    def stop(self):
        """Let them go."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            if process.is_alive():
                try:
                    pipe.send(None)
                except OSError:
                    process.kill()
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.kill()
        self.folder.cleanup()


@contextmanager
def ranks(world, timeout=120.0, backend="gloo"):
    """Processes for a block of a test."""
    held = Ranks(world, timeout, backend)
    try:
        yield held
    finally:
        held.stop()
