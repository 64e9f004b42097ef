"""Calls in which a process dies, raises, sleeps or asks for something else."""

from __future__ import annotations

import os
import signal
import time

import torch
from torch.distributed.tensor import Replicate, Shard

import widen
from sharded_cases import mesh_of, operands, placed
from widen.distributed import CommunicationError, all_reduce, checked
from widen.distributed.wire import Wire

R, S = Replicate(), Shard


def inner(mesh, out):
    """Exact parts are exchanged, and elements are left open for the last step."""
    a, b = operands((20, 300, 20), "float64", family="cancellation")
    da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
    return lambda: widen.matmul(da, db, out=out)


def gathered(mesh, out):
    a, b = operands((20, 30, 20), "float64")
    da, db = placed(a, mesh, [S(0)]), placed(b, mesh, [S(1)])
    return lambda: widen.matmul(da, db, out=out)


def solved(mesh, out):
    a, b = operands((20, 20, 20), "float64")
    da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
    return lambda: out.to_local().copy_(widen.linalg.solve(da, db).to_local())


def summed(mesh, out):
    x = torch.arange(20.0, dtype=torch.float64)[:, None].expand(20, 20)
    return lambda: out.to_local().copy_(all_reduce(x, mesh)[: len(out.to_local())])


CALLS = {"inner": inner, "gathered": gathered, "solved": solved, "summed": summed}


def prepared(name, mesh):
    """A call, and its result's place: filled with 7, which stays if there is no result."""
    out = placed(torch.full((20, 20), 7.0, dtype=torch.float64), mesh, [S(0)])
    return CALLS[name](mesh, out), out


def outcome(call, out):
    """What a call said, whether its result's place is untouched, and how long it took."""
    started = time.monotonic()
    try:
        call()
    except CommunicationError as error:
        untouched = bool((out.to_local() == 7.0).all())
        return str(error), untouched, time.monotonic() - started
    return "no error", None, time.monotonic() - started


def collectives(name):
    """The steps of a call, in order: where a process may die."""
    call, _ = prepared(name, mesh_of((3,)))
    steps = []
    watch(lambda step: steps.append(step))
    call()
    unwatch()
    return steps


EXCHANGE, REDUCE = Wire.exchange, Wire.reduce


def watch(before):
    """Have a function called before every message."""

    def watched(function):
        def call(self, step, *given):
            before(step)
            return function(self, step, *given)

        return call

    Wire.exchange, Wire.reduce = watched(EXCHANGE), watched(REDUCE)


def unwatch():
    Wire.exchange, Wire.reduce = EXCHANGE, REDUCE


def dies_at(name, at):
    """Rank 1 is killed before its first message of a step."""
    mesh = mesh_of((3,))
    call, out = prepared(name, mesh)

    def before(step):
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if mesh.get_rank() == 1:
        watch(before)
    return outcome(call, out)


def forever(name, ready):
    """The same call again and again, until somebody is killed from outside, or nobody looks."""
    mesh, end = mesh_of((3,)), time.monotonic() + 300
    call, out = prepared(name, mesh)
    call()
    with open(f"{ready}.{mesh.get_rank()}", "w") as file:
        file.write(str(os.getpid()))
    while True:
        out.to_local().fill_(7.0)
        said, untouched, seconds = outcome(call, out)
        if said != "no error" or time.monotonic() > end:
            return said, untouched, seconds


def raises_in_the_middle(name):
    """Rank 1 runs out of memory in the middle; the others wait for it, but not for ever."""
    mesh = mesh_of((3,))
    call, out = prepared(name, mesh)
    if mesh.get_rank() == 1:

        def before(step):
            if step not in ("agree", "scales"):
                raise MemoryError("none left")

        watch(before)
    try:
        return outcome(call, out)
    except MemoryError as error:
        return str(error), bool((out.to_local() == 7.0).all()), 0.0
    finally:
        unwatch()


def one_sleeps(seconds):
    """Rank 1 does not come."""
    mesh = mesh_of((2,))
    a, b = operands((8, 300, 8), "float64")
    da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
    out = placed(torch.full((8, 8), 7.0, dtype=torch.float64), mesh, [S(0)])
    widen.matmul(da, db)
    if mesh.get_rank() == 1:
        time.sleep(seconds)
    return outcome(lambda: widen.matmul(da, db, out=out), out)


def differs_locally(name):
    """Nothing is sent, and ranks are asked for different things; they compare it if told to."""
    mesh = mesh_of((2,))
    if mesh.get_coordinate() is None:
        return None
    me = mesh.get_rank()
    a, b = operands((6, 8, 5), "float64")
    options = {}
    if name == "accuracy":
        options["accuracy"] = ["standard", "correct"][me]
    elif name == "dtype":
        options["dtype"] = ["float64", "float32"][me]
    elif name == "operands":
        b = [b, b.float()][me]
    elif name == "shapes":
        b = b[:, : [5, 3][me]]
    elif name == "error":
        options["accuracy"] = ["standard", "foolish"][me]
    elif name == "placements":
        with checked():
            p = [[R], [S(1)]][me]
            return widen.matmul(placed(a, mesh, p), placed(b, mesh, [R] if me == 0 else [S(0)]))
    da, db = placed(a, mesh, [S(0)]), placed(b, mesh, [R])
    with checked():
        return widen.matmul(da, db, **options)


def same_locally():
    """Nothing is sent, ranks are asked for the same, and compare it."""
    from widen.distributed import counted

    mesh = mesh_of((2,))
    if mesh.get_coordinate() is None:
        return None
    a, b = operands((6, 8, 5), "float64")
    da, db = placed(a, mesh, [S(0)]), placed(b, mesh, [R])
    with counted() as sent:
        widen.matmul(da, db)
        before = dict(sent)
        with checked():
            widen.matmul(da, db)
    return before, sent
