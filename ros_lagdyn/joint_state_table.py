# SPDX-License-Identifier: Apache-2.0
"""From the joint states that robots really send to q, v, a and efforts in the arm's order.

What is decided, from the first check to the last. A refused message changes nothing but its
counter. Each counter has the name of the reason or note.

| message | decision | reason or note |
|---|---|---|
| something that is no joint state, such as text for a number | refused | `malformed` |
| names in any order, extra joints, mimic joints | found by name, the others ignored | |
| none of the arm's joints | refused, its names are kept for diagnostics | `no_known_joint` |
| no positions | refused | `no_position` |
| positions not as many as names; velocities or efforts neither as many nor none | refused | \
`wrong_length` |
| one of the arm's joints named twice | refused | `repeated_name` |
| position of one of the arm's joints NaN, infinite or beyond 1e9 | refused, whole | \
`impossible_position` |
| impossible value of another joint | ignored | |
| velocity missing, NaN, infinite or beyond 1e9 | derived from that joint's positions, \
low-passed at `velocity.cutoff`; goes on from the last velocity; 0 at a first position | |
| effort missing, NaN, infinite or beyond 1e9 | that joint's effort is unknown; no efforts at \
all unless every joint has one | |
| time stamp of a joint repeated | values as sent, derivatives held, answered | `repeated_stamp` |
| stamp of all its joints back by up to 1 s | refused | `stamp_went_back` |
| stamp of some of its joints back by up to 1 s | those joints skipped, the others taken | \
`stamp_went_back` |
| stamp of a joint back by more than 1 s, or for the fifth time in a row | the clock was set \
back: taken, derivatives start anew | `clock_reset` |
| stamp of a joint ahead by more than 0.5 s | taken, derivatives start anew | |
| only some of the joints | taken; each joint keeps its own stamps, so publishers may have \
different clocks | |
| a joint never seen, or received longer ago than `joint_states.max_age` | taken, not answered | \
`incomplete` |

Acceleration is the derivative of velocity, low-passed at `acceleration.cutoff`. It is 0 until two
velocities some milliseconds apart are known; the 0 that stands for an unknown velocity is not
differentiated.
Age is measured by when a message was received, not by its stamp: publishers' clocks may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from operator import index

import numpy as np

from ros_lagdyn.dynamics import LARGEST_STATE
from ros_lagdyn.errors import InvalidArgumentError, shown
from ros_lagdyn.filtered_derivative import MAX_GAP, SECOND, FilteredDerivative
from ros_lagdyn.rigid_body import Array

# Why a message is not answered.
REASONS = (
    'malformed',
    'no_known_joint',
    'no_position',
    'wrong_length',
    'repeated_name',
    'impossible_position',
    'stamp_went_back',
    'incomplete',
)
# What is remarkable about a message whose values were taken; the last that applies is noted.
NOTES = ('', 'repeated_stamp', 'stamp_went_back', 'clock_reset')
_REPEATED_STAMP, _STAMP_WENT_BACK, _CLOCK_RESET = 1, 2, 3

MAX_STEP_BACK = SECOND  # [ns]; a longer one means that the clock was set back
MAX_STEPS_BACK = 4  # refused in a row; one more means that the clock was set back
_MAX_LAYOUTS = 16  # lists of names that are remembered
_MAX_NAMES = 1000  # of a list that is remembered, each of
_MAX_LENGTH = 255  # characters at most: what anybody sends must not stay in memory
_SHOWN_NAMES = 10

_Sample = tuple[int, float, float, float]  # joint, position, velocity, effort; nan if not given


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a message."""

    reason: str = ''  # why it is not answered, one of REASONS; empty: the state is usable
    note: str = ''  # one of NOTES

    @property
    def usable(self) -> bool:
        """Tell if q, v and a are complete and this message is to be answered."""
        return not self.reason


# Prepared once: nothing is built per message.
_REFUSED = {reason: Verdict(reason=reason) for reason in REASONS}
_USABLE = tuple(Verdict(note=note) for note in NOTES)
_INCOMPLETE = tuple(Verdict(reason='incomplete', note=note) for note in NOTES)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Where a list of names has the arm's joints."""

    names: tuple[str, ...]  # the first few, to be shown
    joints: tuple[tuple[int, int], ...]  # (index in the arm, index in the message)
    repeated: bool  # one of the arm's joints is named twice


class JointStateTable:
    """The newest state of an arm's joints, put together from messages.

    Units are rad, rad/s, rad/s^2 and N m for revolute joints, m, m/s, m/s^2 and N for prismatic
    ones.

    Args:
        joints: The arm's independent joints, in the arm's order.
        velocity_cutoff: Of velocities derived from positions [Hz], > 0.
        acceleration_cutoff: Of accelerations derived from velocities [Hz], > 0.
        max_age: How long ago a joint may have been received [s], > 0.
        max_gap: Longest step of time that is still differentiated [s], > 0.
    """

    def __init__(
        self,
        joints: Sequence[str],
        *,
        velocity_cutoff: float,
        acceleration_cutoff: float,
        max_age: float,
        max_gap: float = MAX_GAP,
    ) -> None:
        n = len(joints)
        self.joints = tuple(joints)
        self.counts = dict.fromkeys((*REASONS, *NOTES[1:]), 0)
        self.unknown_names: tuple[str, ...] = ()  # the first few of the last that were
        self.max_age = max_age
        self._index = {name: k for k, name in enumerate(self.joints)}
        if len(self._index) < n or not n:
            raise InvalidArgumentError(f'joints must be different names, got {self.joints}')
        self._velocity = FilteredDerivative(n, velocity_cutoff, max_gap=max_gap)
        self._acceleration = FilteredDerivative(n, acceleration_cutoff, max_gap=max_gap)
        self._names: list[object] = []
        self._layout = _Layout(names=(), joints=(), repeated=False)
        self._layouts: dict[tuple[object, ...], _Layout] = {}
        self._q, self._v, self._a, self._effort = np.full((4, n), nan)
        self._stamp: list[int | None] = [None] * n  # [ns]; None: never seen
        self._received = [nan] * n  # [s]
        self._steps_back = [0] * n  # refused in a row
        self._now = nan  # [s], when the last message was received
        self._has_efforts = False

    @property
    def q(self) -> Array:
        """Positions, shape (n,), nan if never seen. The table's array, updated in place."""
        return self._q

    @property
    def v(self) -> Array:
        """Velocities, shape (n,), nan if never seen. The table's array, updated in place."""
        return self._v

    @property
    def a(self) -> Array:
        """Accelerations, shape (n,), nan if never seen. The table's array, updated in place."""
        return self._a

    @property
    def stamps(self) -> list[int]:
        """Of each joint's newest message [ns]; the table's own list, complete when usable."""
        return self._stamp  # type: ignore[return-value]

    @property
    def received(self) -> list[float]:
        """When each joint's newest message came [s]; the table's own list."""
        return self._received

    @property
    def efforts(self) -> Array | None:
        """Measured efforts, shape (n,), or None unless all are known and none is too old.

        The table's own array, updated in place. Each effort is of the same message as its
        joint's position.
        """
        return self._effort if self._has_efforts else None

    @property
    def max_age(self) -> float:
        """How long ago a joint may have been received [s]; may be changed."""
        return self._max_age

    @max_age.setter
    def max_age(self, max_age: float) -> None:
        if not max_age > 0.0:
            raise InvalidArgumentError(f'max_age must be > 0 s, got {max_age}')
        self._max_age = max_age

    @property
    def velocity_cutoff(self) -> float:
        """Cut-off frequency of derived velocities [Hz]; may be changed."""
        return self._velocity.cutoff

    @velocity_cutoff.setter
    def velocity_cutoff(self, cutoff: float) -> None:
        self._velocity.cutoff = cutoff

    @property
    def acceleration_cutoff(self) -> float:
        """Cut-off frequency of accelerations [Hz]; may be changed."""
        return self._acceleration.cutoff

    @acceleration_cutoff.setter
    def acceleration_cutoff(self, cutoff: float) -> None:
        self._acceleration.cutoff = cutoff

    def missing(self, now: float | None = None) -> tuple[str, ...]:
        """Return the joints never seen or too old.

        Args:
            now: Steady time [s]; None: when the last message was received.
        """
        now = self._now if now is None else now
        return tuple(
            name
            for name, stamp, received in zip(
                self.joints, self._stamp, self._received, strict=True
            )
            if stamp is None or now - received > self._max_age
        )

    def reset(self) -> None:
        """Forget the state of all joints; the counters stay."""
        n = len(self.joints)
        for values in (self._q, self._v, self._a, self._effort):
            values.fill(nan)
        self._stamp = [None] * n
        self._received = [nan] * n
        self._has_efforts = False
        self._velocity.reset()
        self._acceleration.reset()

    def put(
        self,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float],
        efforts: Sequence[float],
        *,
        stamp_ns: int,
        received: float,
    ) -> Verdict:
        """Take one message; never raises, whatever it contains.

        Args:
            names: Of its joints, in any order.
            positions: As many as names.
            velocities: As many as names, or none.
            efforts: As many as names, or none.
            stamp_ns: Time of measurement [ns], by the publisher's clock.
            received: Time of receipt [s], by a clock that never goes back.
        """
        try:
            samples = self._read(names, positions, velocities, efforts)
            stamp_ns = index(stamp_ns)
            if not isfinite(received):
                samples = 'malformed'
        except Exception:  # an object from outside may raise anything when it is read
            samples = 'malformed'
        if isinstance(samples, str):
            self.counts[samples] += 1
            return _REFUSED[samples]
        return self._take(samples, stamp_ns, received)

    def _read(
        self,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float],
        efforts: Sequence[float],
    ) -> list[_Sample] | str:
        """Return the samples of the arm's joints, or the reason why there are none."""
        if type(names) is not list:
            names = list(names)
        # Almost always the names are those of the message before.
        layout = self._layout if names == self._names else self._find(names)
        if not layout.joints:
            self.unknown_names = layout.names
            return 'no_known_joint'
        n = len(names)
        if len(positions) != n:
            return 'wrong_length' if len(positions) else 'no_position'
        n_velocities, n_efforts = len(velocities), len(efforts)
        if n_velocities not in (0, n) or n_efforts not in (0, n):
            return 'wrong_length'
        if layout.repeated:
            return 'repeated_name'
        samples = []
        for k, i in layout.joints:
            q = positions[i]
            v = velocities[i] if n_velocities else nan
            effort = efforts[i] if n_efforts else nan
            if not abs(q) <= LARGEST_STATE:  # nor is NaN
                return 'impossible_position'
            # float() makes Python's own numbers of numpy's, which are slow one by one.
            samples.append(
                (
                    k,
                    float(q),
                    float(v) if abs(v) <= LARGEST_STATE else nan,
                    float(effort) if abs(effort) <= LARGEST_STATE else nan,
                )
            )
        return samples

    def _find(self, names: list[str]) -> _Layout:
        """Return where these names have the arm's joints; remember it for the next message."""
        key = tuple(names)
        if not _is_small(key):
            return self._new_layout(key)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._new_layout(key)
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = layout
        self._names = list(key)  # a copy: the caller may change its list
        self._layout = layout
        return layout

    def _new_layout(self, names: tuple[object, ...]) -> _Layout:
        joints = tuple(
            (self._index[name], i)
            for i, name in enumerate(names)
            if isinstance(name, str) and name in self._index
        )
        return _Layout(
            names=tuple(shown(str(name)) for name in names[:_SHOWN_NAMES]),
            joints=joints,
            repeated=len({k for k, _ in joints}) < len(joints),
        )

    def _take(self, samples: list[_Sample], stamp_ns: int, received: float) -> Verdict:
        """Take checked samples, joint by joint."""
        taken = 0
        note = 0
        known_efforts = 0
        for k, q, v, effort in samples:
            last = self._stamp[k]
            if last is not None and stamp_ns <= last:
                if stamp_ns == last:
                    note = max(note, _REPEATED_STAMP)
                elif last - stamp_ns <= MAX_STEP_BACK and self._steps_back[k] < MAX_STEPS_BACK:
                    self._steps_back[k] += 1
                    note = max(note, _STAMP_WENT_BACK)
                    continue
                else:
                    note = _CLOCK_RESET
                    self._velocity.reset_channel(k)
                    self._acceleration.reset_channel(k)
            if stamp_ns != last:
                v, self._a[k] = self._differentiate(k, q, v, stamp_ns)
            self._q[k] = q
            if v == v:  # else it is nan: a repeated stamp without a velocity holds the last one
                self._v[k] = v
            self._effort[k] = effort
            known_efforts += effort == effort
            self._stamp[k] = stamp_ns
            self._received[k] = received
            self._steps_back[k] = 0
            taken += 1
        if not taken:
            self.counts['stamp_went_back'] += 1
            return _REFUSED['stamp_went_back']
        self._now = received
        if note:
            self.counts[NOTES[note]] += 1
        if taken == len(self.joints):
            self._has_efforts = known_efforts == taken
            return _USABLE[note]
        if self.missing():
            self._has_efforts = False
            self.counts['incomplete'] += 1
            return _INCOMPLETE[note]
        self._has_efforts = bool(np.isfinite(self._effort).all())
        return _USABLE[note]

    def _differentiate(self, k: int, q: float, v: float, stamp_ns: int) -> tuple[float, float]:
        """Return velocity and acceleration of joint `k`; v is nan if it was not sent."""
        if v == v:
            self._velocity.put_known(k, q, v, stamp_ns)
        else:
            v = self._velocity.update_channel(k, q, stamp_ns)
            if not self._velocity.started(k):
                # This 0 stands for an unknown velocity: the step to the first known one
                # would be an acceleration that never was.
                self._acceleration.reset_channel(k)
                return v, 0.0
        return v, self._acceleration.update_channel(k, v, stamp_ns)


def _is_small(names: tuple[object, ...]) -> bool:
    """Say whether a list holds names only, as a robot sends them, and will not fill the memory."""
    return len(names) <= _MAX_NAMES and all(
        isinstance(name, str) and len(name) <= _MAX_LENGTH for name in names)
