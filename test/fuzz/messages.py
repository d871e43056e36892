# SPDX-License-Identifier: Apache-2.0
"""Many hostile messages to the node in this process, in sessions of some thousand steps each."""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.hostile import STEP, smallest
from fuzz.session import Session, ros
from ros_lagdyn.shipped_arms import STEMS, shipped_urdf

STEPS = 20_000  # of a session
WARM = STEPS // 2  # after which all kinds have been there, and memory should stay as it is
ENOUGH = 8  # sessions to judge by: each arm once
LOOK_UP = 64  # steps between two looks whether the node has been shut down for good
# Arms of the sessions in turn: the more joints and motors, the more there is to spoil.
ARMS = ('two_link', 'five_bar', 'spatial_3r', 'two_link', 'two_link_remote', 'spherical_pendulum',
        'prismatic_revolute', 'cartesian')
assert set(ARMS) <= set(STEMS)


@dataclass
class Result:
    """What a run has shown."""

    sent: int = 0  # messages, requests and the rest; valid joint states not counted
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    slowest: float = 0.0  # [s] of processor time, of a step
    memory: list[float] = field(default_factory=list)  # [MB], at the end of each session
    growths: list[float] = field(default_factory=list)  # [bytes] per message of each session
    counts: Counter[str] = field(default_factory=Counter)
    fault: str = ''  # what went wrong, with the smallest steps found that show it

    @property
    def growth(self) -> float:
        """How much memory one more message takes [bytes]: in most sessions no more than this.

        Between sessions there are other nodes, which is none of a message's doing.
        """
        return statistics.median(self.growths) if len(self.growths) >= ENOUGH else 0.0


def memory() -> float:
    """Return what this process has in memory now [MB]."""
    pages = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[1])
    return pages * resource.getpagesize() / 1e6


def urdf_of(session: int) -> str:
    """Return the text of the arm of a session."""
    return Path(shipped_urdf(ARMS[session % len(ARMS)])).read_text(encoding='utf-8')


def run(count: int, seed: int, *, seconds: float = float('inf'), session: int = STEPS,
        progress: Callable[[Result], None] = lambda result: None) -> Result:
    """Send so many hostile messages, or for so long; stop at the first fault.

    Args:
        count: of messages.
        seed: the same one sends the same messages.
        seconds: most that it may take.
        session: steps of one.
        progress: called after each session.
    """
    with ros() as context:
        player = Player(context, seed)
        end = time.monotonic() + seconds
        while player.result.sent < count and time.monotonic() < end and not player.result.fault:
            player.play(player.steps(min(session, count - player.result.sent)))
            progress(player.result)
        return player.result


class Player:
    """Plays sessions one after the other."""

    def __init__(self, context: Any, seed: int) -> None:
        """Take a context of rclpy and what decides about all."""
        self.result = Result()
        self._context = context
        self._random = random.Random(seed)
        self._number = 0
        self._session: Session | None = None
        self._when_warm = 0.0  # [MB]
        self._done: list[bytes] = []  # steps of the session
        self._began = time.monotonic(), time.process_time()

    def steps(self, count: int) -> Iterator[bytes]:
        """Yield the steps of a session."""
        for _ in range(count):
            yield self._random.randbytes(STEP)

    def play(self, steps: Iterator[bytes]) -> None:
        """Play one session to its end."""
        self.play_on(steps)
        self.end()

    def play_on(self, steps: Iterator[bytes]) -> None:
        """Go on with a session, or begin one; look for the smallest fault where there is one."""
        result = self.result
        try:
            if self._session is None:
                self._urdf, self._start = urdf_of(self._number), self._random.randbytes(STEP)
                self._number += 1
                self._done = []
                self._session = Session(self._context, self._urdf, self._start)
            for step in steps:
                self._done.append(step)
                result.sent += 1
                begin = time.process_time()
                self._session.step(step)
                result.slowest = max(result.slowest, time.process_time() - begin)
                if len(self._done) == WARM:
                    self._when_warm = memory()
                if len(self._done) % LOOK_UP == 0 and self._session.has_ended:
                    break
        except Exception:
            result.fault = self._explain(self._urdf, self._start, self._done)
        if result.fault or len(self._done) >= STEPS or (
                self._session is not None and self._session.has_ended):
            self.end()
        self._note()

    def end(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            self.result.counts += session.counts
            self.result.sent -= session.counts['valid joint states']
            try:
                session.close()
            except Exception:
                self.result.fault = self.result.fault or self._explain(
                    self._urdf, self._start, self._done)
            self.result.memory.append(memory())
            if len(self._done) >= STEPS:
                self.result.growths.append(
                    1e6 * (self.result.memory[-1] - self._when_warm) / (STEPS - WARM))
            gc.collect()  # nodes of rclpy are held by themselves
        self._note()

    def _note(self) -> None:
        self.result.seconds = time.monotonic() - self._began[0]
        self.result.cpu_seconds = time.process_time() - self._began[1]

    def _explain(self, urdf: str, start: bytes, steps: list[bytes]) -> str:
        """Return the fault with as few steps as possible."""
        text = traceback.format_exc()
        last = steps[-1:]
        # Most faults need only the last of what came before.
        for count in (0, 1, 10, 100, 1000):
            if self._fails(urdf, start, steps[-1 - count:]):
                last = smallest(steps[-1 - count:], lambda some: self._fails(urdf, start, some))
                break
        else:
            last = steps
        arm = ARMS[(self._number - 1) % len(ARMS)]
        shown = '\n'.join(f'    bytes.fromhex({step.hex()!r}),' for step in last[-50:])
        return (f'{text}\nShown by {len(last)} of {len(steps)} steps of an arm "{arm}":\n\n'
                f'from fuzz.session import Session, ros\n'
                f'from ros_lagdyn.shipped_arms import shipped_urdf\n'
                f'with ros() as context:\n'
                f'  session = Session(context, open(shipped_urdf({arm!r})).read(),\n'
                f'                    bytes.fromhex({start.hex()!r}))\n'
                f'  for step in [\n{shown}\n  ]:\n    session.step(step)\n  session.close()\n')

    def _fails(self, urdf: str, start: bytes, steps: list[bytes]) -> bool:
        try:
            session = Session(self._context, urdf, start)
            try:
                for step in steps:
                    session.step(step)
            finally:
                session.close()
        except Exception:
            return True
        return False
