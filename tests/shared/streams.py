"""Streams of a GPU that is not there: copies that come late, and events that are noted."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

from widen.gpu.host.copies import Link


class Late(Link):
    """Copies that happen when somebody waits for them, in their order, and no earlier."""

    def __init__(self, device):
        super().__init__(device)
        self.lock, self.waiting, self.sent, self.fetched = threading.Lock(), [], 0, 0

    def computed(self):
        return object()

    def send(self, target, source, after):
        assert after is not None
        self.sent += source.nbytes
        return self._later(target, source)

    def fetch(self, target, source, after):
        self.fetched += source.nbytes
        return self._later(target, source)

    def _later(self, target, source):
        with self.lock:
            self.waiting.append((mark := object(), target, source))
        return mark

    def wait(self, mark):
        with self.lock:
            while any(mark is other for other, *_ in self.waiting):
                _, target, source = self.waiting.pop(0)
                target.copy_(source)

    expect = wait

    def finish(self):
        if self.waiting:
            self.wait(self.waiting[-1][0])


class Stream:
    """A stream of a GPU, as far as copies call it; its events are numbered."""

    events = itertools.count()

    def __init__(self, device):
        self.waited, self.recorded, self.synchronized = [], [], 0

    def wait_event(self, event):
        assert isinstance(event, Event)
        self.waited.append(event)

    def record_event(self):
        self.recorded.append(Event(next(self.events)))
        return self.recorded[-1]

    def synchronize(self):
        self.synchronized += 1


@dataclass(frozen=True)
class Event:
    number: int

    def synchronize(self):
        pass


def formula(plan):
    """Bytes of the operands of one product, as the docstring of `panels` has them."""
    turns, steps = plan.counts[plan.kept], plan.counts[1 - plan.kept]
    whole = [count * line for count, line in zip(plan.sizes.count, plan.sizes.lines, strict=True)]
    kept, stream = whole[plan.kept], whole[1 - plan.kept]
    count, step = plan.sizes.count[1 - plan.kept], plan.step[1 - plan.kept]
    line = plan.sizes.lines[1 - plan.kept]
    there = 0
    for turn in range(turns - 1):  # the last two forwards, the first two on the way back
        ends = range(max(steps - 2, 0), steps) if turn % 2 == 0 else range(min(2, steps))
        there += sum(line * (min((at + 1) * step, count) - at * step) for at in ends)
    return kept + turns * stream - there
