"""Products on a GPU of operands that stay in host memory: sent in panels, results copied back.

`panels` chooses the panels, `copies` moves them. A panel of the result is an ordinary
product of tensors on the GPU (`gpu.products`), so its bits are those of every other way.

Three things happen at one time: a helper thread stages and sends the panels of the next product,
the GPU multiplies, and results go back. A panel's place is written again when the product that
read it is done.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from widen.bounds import Goal
from widen.encoded import Encoded
from widen.gpu import encoder, products
from widen.gpu.batches import lines_of, planes
from widen.gpu.clock import Clock
from widen.gpu.encode import EncodedLines
from widen.gpu.encoder import TooLarge
from widen.gpu.host.arrays import (
    Matrices,
    Operand,
    given_back,
    matrices_of,
    result_for,
    words_in,
)
from widen.gpu.host.copies import (
    ALIGNED,
    MOST_THREADS,
    PIECE,
    Copier,
    Link,
    Results,
    Staging,
    Streams,
)
from widen.gpu.host.panels import Load, Step
from widen.gpu.host.sizes import panels_of
from widen.gpu.operands import Lines
from widen.options import Options
from widen.plan import Layout, Plan
from widen.stages.problem import Call, Encoding, Scalars, info_of
from widen.stages.run import encode_operand


def device_named(name: str) -> str:
    """The GPU that is called so, "cuda" or "cuda:1", with its number."""
    if not torch.cuda.is_available():
        raise ValueError(
            f"device={name!r}: PyTorch {torch.__version__} sees no GPU here; leave device= out to "
            "multiply on the CPU"
        )
    device = torch.device(name)
    index = device.index if ":" in name else torch.cuda.current_device()
    count = torch.cuda.device_count()
    if index >= count:
        raise ValueError(f"device={name!r}: there are {count} GPUs, and the first is 'cuda:0'")
    return f"cuda:{index}"


def product(call: Call, scalars: Scalars, out: Any, options: Options, place: str) -> Any:
    """The sum alpha a b + beta c of NumPy arrays (or `Words` of such), computed on a GPU."""
    device = torch.device(place)
    if scalars.c is not None:
        check_addend(call, scalars.c)
    target = result_for(call, scalars.c, out)
    read = call if call.k and scalars.alpha != 0 else _unread(call)
    ran, bound = call.empty_plan(), np.empty(call.dims) if options.info is True else None
    account: Clock = Clock(timed=False)
    if math.prod(call.dims):
        with _ready(call, device):
            link = Streams(device) if device.type == "cuda" else Link(device)
            added = [] if scalars.c is None else words_in(scalars.c)
            pairs = itertools.product(added, words_in(target))
            # What is added may be gone when some of the result is written.
            sure = any(np.may_share_memory(x, y) for x, y in pairs)
            done = _computed(Product(read, scalars, target, options, link, sure=sure))
            if done is None:  # the memory of the first attempt is free
                done = _computed(Product(read, scalars, target, options, link, sure=True))
            assert done is not None, "there is room for any planes"
            ran, bound, account = done
    result = given_back(target, out)
    ran = replace(call.planned(ran), workspace=call.workspace)
    record = info_of(ran, bound, account, math.prod(call.dims)) if options.info else None
    return result if record is None else (result, record)


def _computed(product: Product) -> tuple[Plan, Any, Clock] | None:
    """The plan that ran, bounds and an account; None if planes were not as usual."""
    try:
        return product.run(), product.bound, product.account
    except TooLarge:
        return None


def check_addend(call: Call, c: Any) -> None:
    """Whether what is added has the result's shape, or can be repeated to it."""
    try:
        fits = np.broadcast_shapes(tuple(c.shape), call.dims) == call.dims
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"c has shape {tuple(c.shape)}, which does not broadcast to the result's {call.dims}"
        )


def _unread(call: Call) -> Call:
    """The same with operands that have nothing to send: no columns, and no rows."""
    right = call.right[:0] if call.right.ndim == 1 else call.right[..., :0, :]
    return replace(call, left=call.left[..., :0], right=right)


@contextmanager
def _ready(call: Call, device: torch.device) -> Iterator[None]:
    """A context to compute in: running out of memory says what to do."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    except torch.OutOfMemoryError as error:
        raise torch.OutOfMemoryError(
            f"the GPU has too little free memory for a workspace of {call.workspace / 1e9:.2g} GB; "
            f"give a smaller workspace=, such as {call.workspace // 4} ({error})"
        ) from None


@dataclass(frozen=True)
class Limited:
    """Encodes on a GPU, unless an entry takes more bytes than there is room for."""

    most: int

    def encode_operand(
        self, operand: Lines, wanted: Encoding, goal: Goal, wider: Encoded | None
    ) -> tuple[str, Layout, EncodedLines]:
        """As `gpu.encoder` does."""
        return encoder.encode_operand(operand, wanted, goal, wider, self.most)


class Product:
    """A product in panels, and what it keeps while it runs."""

    def __init__(
        self, call: Call, scalars: Scalars, target: Any, options: Options, link: Link, *, sure: bool
    ) -> None:
        self.call, self.scalars, self.options, self.link = call, scalars, options, link
        self.vectors = [x.ndim == 1 for x in (call.left, call.right)]
        info = options.info
        self.bound = np.empty(call.dims) if info is True else None
        self.account = Clock(timed=bool(info) and link.device.type == "cuda", bounds=bool(info))
        self.encoded: Encoded | None = None
        own = [np.arange(math.prod(x.shape[:-2])).reshape(x.shape[:-2]) for x in
               (call.left, call.right)]  # fmt: skip
        ours, theirs = (np.broadcast_to(x, call.batch).ravel() for x in own)
        self.own = ours, theirs
        self.panels = panels_of(call, scalars, options, link.device, sure=sure)
        items, (rows, columns), k = self.panels.items, self.panels.step, call.k
        self.written = [self._results(target)]
        if self.bound is not None:
            self.written.append(self._results(self.bound))
        ours_at, theirs_at = ((at,) if vector else () for at, vector in
                              zip((-2, -1), self.vectors, strict=True))  # fmt: skip
        left, right = matrices_of(call.left, ours_at), matrices_of(call.right, theirs_at)
        slots = self.panels.slots
        self.operands = [
            Operand(call.left, left, slots[0], items * rows * k, link),
            Operand(call.right, right, slots[1], items * columns * k, link),
        ]
        if scalars.c is not None:
            added = self._results(scalars.c, call.dims)
            self.operands.append(Operand(scalars.c, added, 2, items * rows * columns, link))

    def _results(self, x: Any, dims: tuple[int, ...] | None = None) -> Matrices:
        """An array of the result's shape, or one that is repeated to it, as matrices."""
        missing = [at for at, vector in zip((-2, -1), self.vectors, strict=True) if vector]
        return matrices_of(x, tuple(reversed(missing)), dims)

    def run(self) -> Plan:
        """Compute it; give the plan that ran."""
        threads = max(1, min(torch.get_num_threads(), MOST_THREADS))
        try:
            with Copier(threads) as copier, ThreadPoolExecutor(1, "widen-sends") as helper:
                return self._run(copier, helper)
        finally:
            self.link.finish()  # before memory that copies read or write is given back

    def _run(self, copier: Copier, helper: ThreadPoolExecutor) -> Plan:
        panels, sizes, link = self.panels, self.panels.sizes, self.link
        elements = panels.items * math.prod(panels.step)
        room = sum(matrices.room_for(elements) for matrices in self.written)
        longest = max(x.places[0].memory.nbytes for x in self.operands)
        staging = Staging(link, copier, min(PIECE, max(longest, ALIGNED)))
        results = Results(link, copier, room)
        steps = itertools.chain(panels.steps(self.own), [None])
        total = -(-sizes.shape[0] // panels.items) * math.prod(panels.counts)
        ran: Plan | None = None
        for at, (step, following) in enumerate(itertools.pairwise(steps)):
            assert step is not None, "nothing follows the last"
            if at == 0:
                self._send(staging, step, at, [0, 1, 2])
            late = self._sides_after(step, following)
            early = [side for side in range(3) if side not in late]
            sent = helper.submit(self._send, staging, following, at + 1, early)
            ran = self._multiply(step, at, results)
            sent_late = helper.submit(self._send, staging, following, at + 1, late)
            results.put(most=1)
            sent.result()
            sent_late.result()
            if following is None:
                results.put()
            if self.options.progress is not None:
                self.options.progress((at + 1) / total)
        assert ran is not None
        self.account.workspace += sum(x.nbytes for x in self.operands) + elements * sizes.there
        rows, columns = panels.step
        why = (
            f"operands stay in host memory: {rows} rows and {columns} columns at a time on "
            f"{link.device}, {staging.sent / 1e6:.4g} MB sent, {results.fetched / 1e6:.4g} MB "
            "fetched"
        )
        return replace(ran, why=(*ran.why, why))

    @staticmethod
    def _sides_after(step: Step, following: Step | None) -> list[int]:
        """Operands whose next panel takes the place of one that this step reads."""
        if following is None:
            return []
        both = zip(following.loads, step.loads, strict=True)
        return [side for side, (new, old) in enumerate(both) if new.takes_place_of(old)]

    def _send(self, staging: Staging, step: Step | None, at: int, sides: Sequence[int]) -> None:
        """Send what a step needs of some operands and is not there; c is always new."""
        if step is None:
            return
        inner = slice(0, self.call.k)
        for side in sides:
            if side == 2 and len(self.operands) > 2:
                self.operands[2].send(staging, at % 2, step.items, step.rows, step.columns)
            elif side < 2 and step.loads[side].new:
                load = step.loads[side]
                lines = (load.lines, inner) if side == 0 else (inner, load.lines)
                self.operands[side].send(staging, load.slot, load.items, *lines)

    def _multiply(self, step: Step, at: int, results: Results) -> Plan:
        """Compute a panel of the result, which goes back."""
        slots = [load.slot for load in step.loads] + [at % 2]
        places = [x.places[slot] for x, slot in zip(self.operands, slots, strict=False)]
        for place in places:
            self.link.expect(place.arrived)
        rows, columns = (_size(lines) for lines in (step.rows, step.columns))
        sizes = ((rows, self.call.k), (self.call.k, columns))
        sides: list[Any] = [
            self.operands[side].panel(load.slot, len(load.items), *size)
            for side, (load, size) in enumerate(zip(step.loads, sizes, strict=True))
        ]
        call = self.call
        if self.panels.encodes and call.k > 0:
            kept = self.panels.kept
            sides[kept] = self._encoded(sides[kept], step.loads[kept])
            call = replace(call, unit=sides[kept].unit, system=sides[kept].system)
        items = len(step.items)
        call = replace(
            call, left=sides[0], right=sides[1], batch=() if items == 1 else (items,), m=rows,
            n=columns, workspace=self.panels.workspace,
        )  # fmt: skip
        scalars = self.scalars
        if scalars.c is not None:
            scalars = replace(scalars, c=self.operands[2].panel(at % 2, items, rows, columns))
        bound = None
        if self.bound is not None:
            bound = torch.empty(call.dims, dtype=torch.float64, device=self.link.device)
        result, ran = products.computed(call, scalars, bound, self.account)
        done = self.link.computed()
        for place in places:
            place.free = done
        made = [
            x.reshape(-1, rows, columns).contiguous()
            for x in (*planes(result), *([] if bound is None else [bound]))
        ]
        targets = [
            views
            for matrices in self.written
            for views in matrices.views(step.items, step.rows, step.columns)
        ]
        results.fetch(made, targets)
        return ran

    def _encoded(self, panel: Any, load: Load) -> Encoded:
        """The kept panel, encoded when it has come."""
        if load.new or self.encoded is None:
            self.encoded = None  # its memory is free for the next
            side, call = ("left", "right")[self.panels.kept], self.call
            wanted = Encoding(side, call.contract, call.rounded, call.unit, call.system)
            lines = lines_of(panel, side, call.work.parts)
            backend = Limited(self.panels.sizes.kept_entry)
            self.encoded = encode_operand(backend, lines, tuple(panel.shape), [wanted])
        return self.encoded


def _size(lines: slice) -> int:
    return int(lines.stop - lines.start)
