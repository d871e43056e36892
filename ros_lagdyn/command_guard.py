# SPDX-License-Identifier: Apache-2.0
"""What stands between a computed torque and a motor: a state machine without ROS.

An effort controller holds the last torque for ever. So a command leaves here only if it is
finite, within the effort limits, no faster than the slew rates, and backed by fresh joint states
that a real arm can have. Otherwise the guard lets go, as its policy says, and says why; when the
input has been sound for a while it takes up the torque again, with a ramp from zero.

       enable              sound               ramped
    OFF ----> WAITING ------> RAMPING ------> FOLLOWING
                                 |  fault        |
                                 +-------+-------+
                                         |          policy fade: FADING, zero: STOPPED,
                                         v          hold_gravity: HOLDING
      STOPPED <-- faded -- FADING <-- held -- HOLDING
    and from each of these three back to RAMPING when the input is sound.

Whatever the state, `disable` leads to OFF. docs/command_guard.md has the diagram of TRANSITIONS.
Time is steady, in seconds; torques are in the order of the commanded joints [Nm] or [N].
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, isfinite, pi
from typing import NamedTuple

import numpy as np

from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.rigid_body import Array

SOUND_FOR = 0.1  # [s] without a fault, after which the input is trusted again
SLACK = 1e-3  # [rad] or [m] that a position may always change: resolution of an encoder
JITTER = 0.01  # [s] that a joint state may be sampled before or after its time
LONGEST_STEP = 0.5  # [s]; stamps that lie further apart tell nothing about a velocity
LONGEST_PAUSE = 0.5  # [s] between two commands; after a longer one the arm is not where it was
HELD_UP = 0.03  # [s] between two ticks: the process was held up, and so was what it receives
UNLIMITED = 1e300


class State(Enum):
    """What the guard does."""

    OFF = 'off'  # the person's switch is off: no command at all
    WAITING = 'waiting'  # switched on, no torque until the input is sound and somebody listens
    RAMPING = 'ramping'  # a growing share of the torque
    FOLLOWING = 'following'  # the torque
    HOLDING = 'holding'  # the last gravity torque
    FADING = 'fading'  # from the last command to zero
    STOPPED = 'stopped'  # zero, until the input is sound


class Event(Enum):
    """What leads from one state to another."""

    ENABLE = 'enable'
    DISABLE = 'disable'
    SOUND = 'sound'  # nothing was wrong for SOUND_FOR
    RAMPED = 'ramped'  # ramp_time is over
    FAULT_FADE = 'fault, policy fade'
    FAULT_ZERO = 'fault, policy zero'
    FAULT_HOLD = 'fault, policy hold_gravity'
    HELD = 'held'  # hold_time is over
    FADED = 'faded'  # fade_time is over


_ON = tuple(state for state in State if state is not State.OFF)
# What is not here leaves the state as it is.
TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OFF, Event.ENABLE): State.WAITING,
    **{(state, Event.DISABLE): State.OFF for state in _ON},
    (State.WAITING, Event.SOUND): State.RAMPING,
    (State.RAMPING, Event.RAMPED): State.FOLLOWING,
    **{(state, event): after
       for state in (State.RAMPING, State.FOLLOWING)
       for event, after in ((Event.FAULT_FADE, State.FADING), (Event.FAULT_ZERO, State.STOPPED),
                            (Event.FAULT_HOLD, State.HOLDING))},
    (State.HOLDING, Event.HELD): State.FADING,
    (State.HOLDING, Event.SOUND): State.RAMPING,
    (State.FADING, Event.FADED): State.STOPPED,
    (State.FADING, Event.SOUND): State.RAMPING,
    (State.STOPPED, Event.SOUND): State.RAMPING,
}
POLICIES = {'fade': Event.FAULT_FADE, 'zero': Event.FAULT_ZERO, 'hold_gravity': Event.FAULT_HOLD}

# Reasons of faults.
STALE = 'stale'
NOT_FINITE = 'not_finite'
POSITION_JUMP = 'position_jump'
TOO_FAST = 'too_fast'
CROSS_CHECK = 'cross_check'
REASONS = (STALE, NOT_FINITE, POSITION_JUMP, TOO_FAST, CROSS_CHECK)


@dataclass(frozen=True, kw_only=True)
class GuardSettings:
    """How the guard behaves; times in seconds."""

    policy: str = 'fade'  # after a fault: one of POLICIES
    ramp_time: float = 0.5  # from zero to the full torque
    fade_time: float = 0.5  # from the last command to zero
    hold_time: float = 1.0  # how long the last gravity torque is held
    timeout: float = 0.05  # how old the joint state of a joint may be
    velocity_factor: float = 1.5  # times the velocity limit is too fast
    patience: float = 0.1  # how long the engines may disagree

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.policy not in POLICIES:
            raise InvalidArgumentError(
                f'policy must be one of {", ".join(POLICIES)}, got "{self.policy}"')


class GuardLimits(NamedTuple):
    """What an arm can do: m numbers of the commands, n of the arm's joints, infinite for none."""

    max_effort: Array  # (m,) [Nm] or [N]
    max_slew: Array  # (m,) [Nm/s] or [N/s]
    max_velocity: Array  # (n,) [rad/s] or [m/s]
    fresh_joints: Sequence[int]  # indices of the arm's joints whose age counts
    turning_joints: Collection[int] = ()  # indices of those that may start again after a turn
    # Whether commands are cut all by the same factor, where each alone would mean other torques
    # of the joints that they drive together.
    together: bool = False


class Sample(NamedTuple):
    """What is known when a joint state has been answered; arrays of the arm's n joints."""

    q: Array  # (n,)
    v: Array  # (n,)
    stamps: Sequence[int]  # of each joint's last message [ns], by the publisher's clock
    received: Sequence[float]  # when it came [s], steady
    torque: Array  # (m,), to be commanded
    gravity: Array  # (m,), its part that holds the arm still
    disagrees: bool  # whether the last cross-check failed
    heard: bool = True  # whether a controller has the last command


class Command(NamedTuple):
    """What goes to the motors, and why."""

    torque: Array  # (m,), finite, within the limits; the guard's own array
    state: State
    reason: str  # of the fault that lasts, one of REASONS; empty: none
    saturated: bool  # a limit cut the torque


class CommandGuard:
    """Lets torques through while all is well.

    Attributes:
        state: what it does now.
        reason: of the fault that lasts, or empty.
        culprit: index of the arm's joint whose fault it is, or None.
        measured: what is wrong with it: its age [s], its way since the last joint state [rad] or
            [m], or its velocity.
        faults: how many faults had each of REASONS; one that changes its reason counts for both.
        saturated: whether a limit cut the last command.
        held_back: whether the slew rate did.
    """

    def __init__(self, settings: GuardSettings, limits: GuardLimits) -> None:
        """Begin in state OFF."""
        self.state = State.OFF
        self.reason = ''
        self.faults = dict.fromkeys(REASONS, 0)
        self.saturated = self.held_back = False
        self.culprit: int | None = None
        self.measured = 0.0
        self._reasons: set[str] = set()  # of the fault that lasts
        self._sent = np.zeros(len(limits.max_effort))  # the last command
        self._sent_at = inf  # before the first, no time has passed
        self._torque = self._gravity = self._left_with = self._sent
        self._share = 0.0  # of the torque that was reached on the ramp
        self._entered = -inf  # when the state began, with _left_with as the command
        # q, stamps, received
        self._last: tuple[list[float], list[int], list[float]] | None = None
        self._spent = [0.0] * len(limits.max_velocity)  # [s] of the jitter, by each joint
        self._oldest = -inf  # when the oldest of the fresh joints was received
        self._oldest_joint: int | None = None
        self._wrong_at = -inf  # when something was wrong last
        self._ticked = -inf  # when the last tick was
        self._was_held_up = False  # and the last tick overlooked silence for that
        self._disagrees_since = inf
        self.use(settings, limits)

    def use(self, settings: GuardSettings, limits: GuardLimits) -> None:
        """Go on with other settings and limits, for the same joints and commands."""
        self.settings = settings
        self._max_effort = limits.max_effort
        # An infinity times no time is no number.
        self._max_slew = np.minimum(limits.max_slew, UNLIMITED)
        self._together = limits.together
        # Lists: for a few numbers Python takes a fraction of numpy's time.
        self._fastest = [inf if most == inf else settings.velocity_factor * most
                         for most in limits.max_velocity.tolist()]
        self._fresh = list(limits.fresh_joints)
        self._turning = frozenset(limits.turning_joints)
        self._zeros = np.zeros(len(limits.max_effort))
        # A limit that was lowered counts at once: the way down from here starts within it.
        self._sent = self._within(self._sent)

    # -- the person's switch ---------------------------------------------------------------

    @property
    def is_enabled(self) -> bool:
        """Say whether the switch is on."""
        return self.state is not State.OFF

    def enable(self, on: bool, now: float) -> None:
        """Turn the switch on or off; off sends nothing more: the caller sends the last zero."""
        if on and not self.is_enabled:
            # Nobody has looked at joint states meanwhile: their age counts from here.
            self._oldest = now
        self._happen(Event.ENABLE if on else Event.DISABLE, now)
        if not self.is_enabled:
            self._end_fault()
            self.saturated = self.held_back = False
            self._sent = self._zeros
            self._sent_at = now

    # -- what comes in -----------------------------------------------------------------------

    def update(self, sample: Sample, now: float) -> Command | None:
        """Take what was computed for a joint state; return the command, None where none is due."""
        self._oldest_joint = min(self._fresh, key=sample.received.__getitem__)
        self._oldest = sample.received[self._oldest_joint]
        wrong = self._wrong_with(sample, now)
        if not wrong:
            self._torque = sample.torque.copy()
            if not sample.disagrees:
                self._gravity = sample.gravity.copy()
        # Compared with the next one even if it is wrong: a jump is one fault, not two.
        if wrong != NOT_FINITE:
            self._last = (sample.q.tolist(), list(sample.stamps), list(sample.received))
        return self._command(wrong, now, sample)

    def tick(self, now: float) -> Command | None:
        """Look at the time; return a command where one is due without a joint state.

        To be called every hundredth of a second, after what waits has been taken. A tick that
        comes late does not judge: what came while the process was held up is about to be
        delivered. The next one does, however late it is.
        """
        self._was_held_up = now - self._ticked > HELD_UP and not self._was_held_up
        self._ticked = now
        if self._was_held_up:
            return None
        stale = now - self._oldest > self.settings.timeout
        if not stale and self.state in (State.RAMPING, State.FOLLOWING):
            return None  # the next joint state brings the next command
        return self._command(self._stale(now) if stale else '', now)

    def _wrong_with(self, sample: Sample, now: float) -> str:
        """Return the reason why a sample cannot be trusted, or ''."""
        self._disagrees_since = min(self._disagrees_since, now) if sample.disagrees else inf
        if now - self._oldest > self.settings.timeout:
            return self._stale(now)
        if self.state in (State.RAMPING, State.FOLLOWING) and (
                now - self._sent_at > max(self.settings.timeout, LONGEST_PAUSE)):
            return self._blame(STALE, self._oldest_joint, now - self._sent_at)
        for numbers in (sample.torque, sample.gravity, sample.q, sample.v):
            if not all(map(isfinite, numbers.tolist())):  # numpy's takes several times as long
                return self._blame(NOT_FINITE)
        if self._jumped(sample):
            return POSITION_JUMP
        for joint, (velocity, fastest) in enumerate(
                zip(sample.v.tolist(), self._fastest, strict=True)):
            if abs(velocity) > fastest:
                return self._blame(TOO_FAST, joint, velocity)
        if now - self._disagrees_since > self.settings.patience:
            return self._blame(CROSS_CHECK)
        return ''

    def _stale(self, now: float) -> str:
        return self._blame(STALE, self._oldest_joint, now - self._oldest)

    def _blame(self, reason: str, joint: int | None = None, measured: float = 0.0) -> str:
        """Note whose fault it is, and return the reason."""
        self.culprit, self.measured = joint, measured
        return reason

    def _jumped(self, sample: Sample) -> bool:
        """Say whether a joint is where no velocity below the limit can have brought it.

        Whatever time it takes at the fastest velocity to get there, and has not passed, must be
        due to jitter: of that there is so much, and it comes back with time.
        """
        if self._last is None:
            return False
        q, stamps, received = self._last
        jumped = False
        for j, (position, fastest) in enumerate(
                zip(sample.q.tolist(), self._fastest, strict=True)):
            way = abs(position - q[j])
            if way > pi and j in self._turning:
                way = min(way % (2.0 * pi), -way % (2.0 * pi))
            if way <= SLACK and not self._spent[j]:
                continue
            # Messages may be held up and come in a burst, stamps may be nonsense: the longer
            # time of the two counts.
            step = 1e-9 * (sample.stamps[j] - stamps[j])
            seconds = max(sample.received[j] - received[j], step if step <= LONGEST_STEP else 0.0)
            needed = 0.0 if way <= SLACK else way / fastest if fastest else inf
            spent = max(self._spent[j] + needed - seconds, 0.0)
            if not spent <= JITTER:  # nor is it a number, where positions are beyond all sense
                jumped, spent = True, 0.0
                self._blame(POSITION_JUMP, j, way)
            self._spent[j] = spent
        return jumped

    # -- what goes out -----------------------------------------------------------------------

    def _command(self, wrong: str, now: float, sample: Sample | None = None) -> Command | None:
        if self.state is State.OFF:
            return None
        self._judge(wrong, now, sample)
        if self.state is State.WAITING and (sample is None or sample.heard):
            return None  # nobody holds a torque, and whoever listens has a zero
        wanted = self._wanted(now)
        limited = self._within(wanted)
        self.saturated = limited.tolist() != wanted.tolist()
        if self.state is not State.STOPPED:  # zero at once needs no gentle way
            # After a longer silence a step is no larger than after the longest that is allowed.
            longest = min(self.settings.timeout, LONGEST_STEP)
            step = self._max_slew * min(max(now - self._sent_at, 0.0), longest)
            wanted, limited = limited, self._towards(limited, step)
            self.held_back = limited.tolist() != wanted.tolist()
        self._sent, self._sent_at = limited, now
        return Command(limited, self.state, self.reason, self.saturated)

    def _judge(self, wrong: str, now: float, sample: Sample | None) -> None:
        """Let a fault, its end, and the end of a time change the state."""
        if wrong:
            if wrong not in self._reasons:
                self._reasons.add(wrong)
                self.faults[wrong] += 1
            self.reason = wrong
            self._wrong_at = now
            self._happen(POLICIES[self.settings.policy], now)
        elif sample is not None and now - self._wrong_at >= SOUND_FOR:
            self._end_fault()
            # A controller that hears nothing before the middle of a ramp would get a leap.
            if sample.heard or self.state is not State.WAITING:
                self._happen(Event.SOUND, now)
        in_state = now - self._entered
        if self.state is State.RAMPING and in_state >= self.settings.ramp_time:
            self._happen(Event.RAMPED, now)
        elif self.state is State.HOLDING and in_state >= self.settings.hold_time:
            self._happen(Event.HELD, now)
        # Also right after it was held: fade_time may be 0.
        if self.state is State.FADING and now - self._entered >= self.settings.fade_time:
            self._happen(Event.FADED, now)

    def _end_fault(self) -> None:
        self.reason, self.culprit = '', None
        self._reasons.clear()

    def _happen(self, event: Event, now: float) -> None:
        after = TRANSITIONS.get((self.state, event))
        if after is not None:
            if self.state is State.RAMPING:
                reached = (self._sent_at - self._entered) / (self.settings.ramp_time or 1.0)
                self._share = min(max(reached, 0.0), 1.0)
            elif self.state is State.FOLLOWING:
                self._share = 1.0
            self.state, self._entered, self._left_with = after, now, self._sent

    def _within(self, torque: Array) -> Array:
        """Return a torque cut by the effort limits."""
        if self._together:
            torque = torque * _largest_share(torque, self._max_effort)
        return _clip(torque, -self._max_effort, self._max_effort)

    def _towards(self, torque: Array, step: Array) -> Array:
        """Return how far a step from the last command leads to a torque; both within limits."""
        if not self._together:
            return _clip(torque, self._sent - step, self._sent + step)
        way = torque - self._sent
        # Between two torques within the limits; rounding aside.
        return _clip(self._sent + way * _largest_share(way, step),
                     -self._max_effort, self._max_effort)

    def _wanted(self, now: float) -> Array:
        """Return what the state asks for, before limits."""
        in_state = now - self._entered
        if self.state is State.FOLLOWING:
            return self._torque
        if self.state is State.RAMPING:
            return self._torque * (in_state / self.settings.ramp_time)
        if self.state is State.HOLDING:
            return self._gravity * self._share
        if self.state is State.FADING:
            return self._left_with * (1.0 - in_state / self.settings.fade_time)
        return self._zeros


def _largest_share(numbers: Array, most: Array) -> float:
    """Return the factor, 1 at the most, that makes all numbers at most a size each."""
    excess = abs(numbers) > most
    return float((most[excess] / abs(numbers[excess])).min()) if excess.any() else 1.0


def _clip(numbers: Array, lower: Array, upper: Array) -> Array:
    """Return numbers within bounds; numpy.clip takes five times as long."""
    return np.minimum(np.maximum(numbers, lower), upper)
