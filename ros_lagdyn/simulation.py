# SPDX-License-Identifier: Apache-2.0
r"""An arm in motion: forward dynamics integrated in time, with dry friction and joint stops.

.. math:: M a + C v + g = \tau + J^T F - D v + f, \qquad
    f_j \in [-F_j, F_j] \text{ (dry friction)}, \quad
    q_j \in [\underline q_j, \overline q_j] \text{ (stops)}

Each sub-step h takes the smooth part (without D v and f) by Runge and Kutta's fourth order. What
resists follows as one implicit step of velocities, from the v that the smooth part leads to:

.. math:: (M + h D)\,v^+ = M v + \lambda

The impulse of joint j is within [-h F_j, h F_j] and as large as needed for v_j = 0: so a joint
really sticks. At a stop it is unbounded on one side: what hits it stays there (no rebound).
The solution is exact: it is found by changing, one after the other, which joints stick.

A mimic joint moves with one independent joint, so its damping, friction and limits are those of
that joint, scaled by the multiplier m: D_j = sum m^2 d, F_j = sum |m| F.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ros_lagdyn.dynamics import Dynamics, require_states
from ros_lagdyn.errors import InvalidArgumentError, LagdynError
from ros_lagdyn.generalized_forces import ForcedDynamics, Wrench
from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.term_scales import TermScales

LONGEST_SUB_STEP = 1.25e-3  # [s]: two for each message at 500 Hz, uneven ones included
MOST_SUB_STEPS = 40  # in one step, however fast the joints are
LARGEST_TURN = 0.04  # [rad], about how far a joint goes in one sub-step
# A pendulum at its pole has no inertia about the vertical. This share of the largest inertia that
# a joint of the arm can feel is added, like a tiny rotor, so that every torque has an answer.
ROTOR = 1e-9
FASTEST = 1e9  # [rad/s] or [m/s]: what is faster has lost its meaning
OUTSIDE = 1e-6  # [rad] or [m], how far beyond a stop a position is taken to be at it
LONGEST_STEP = 10.0  # [s]


class DivergedError(LagdynError):
    """The motion became too fast for numbers; the arm stands where it was before."""


class ArmSimulation:
    """One arm that moves.

    Attributes:
        q: positions (n,) [rad] or [m], within the stops.
        v: velocities (n,) [rad/s] or [m/s].
        tau: torques (n,) [Nm] or [N] of the last step, after saturation.
    """

    def __init__(
        self, dynamics: Dynamics, *, friction: bool = True, q: ArrayLike, v: ArrayLike,
    ) -> None:
        """Take an arm of any engine, in the coordinates of its joints.

        Args:
            dynamics: the arm.
            friction: whether the damping and the friction of the URDF act.
            q: positions at the start, (n,).
            v: velocities at the start, (n,).

        Raises:
            InvalidArgumentError: a shape is wrong, a number not finite, or q beyond a stop.
            LagdynError: the arm is seen in other coordinates than its joints'.
        """
        if not dynamics.in_joint_coordinates:
            raise LagdynError('a simulation needs the arm in the coordinates of its joints')
        self.dynamics = dynamics
        arm = dynamics.arm
        self._n = n = len(arm.joints)
        self._external = ForcedDynamics(dynamics)
        scales = TermScales(dynamics)
        self._rotor = ROTOR * np.diag(np.diagonal(scales.S))
        self._rates: Array = scales.rate_weights
        P = arm.projection
        on = 1.0 if friction else 0.0
        # Every row of P has one entry, the multiplier: tree joints of a column move together.
        self._damping = on * np.diag([body.joint.damping for body in arm.bodies] @ P**2)
        self._coulomb: Array = on * ([body.joint.friction for body in arm.bodies] @ abs(P))
        self._lower, self._upper = joint_stops(arm)
        effort = np.array([joint.limit.effort for joint in arm.independent_joints])
        self._effort = np.where((effort > 0.0) & np.isfinite(effort), effort, inf)
        self._resists = bool(self._coulomb.any() or self._damping.any())
        self.tau = np.zeros(n)
        self.place(q, v)

    def place(self, q: ArrayLike, v: ArrayLike) -> None:
        """Put the arm into a state; raises as the constructor does."""
        positions, velocities = self._vector('q', q), self._vector('v', v)
        beyond = np.maximum(self._lower - positions, positions - self._upper)
        if (beyond > OUTSIDE).any():
            j = int(np.argmax(beyond))
            raise InvalidArgumentError(
                f'joint "{self.dynamics.joints[j]}": the position must be within its stops '
                f'{self._lower[j]:g} to {self._upper[j]:g}, got {positions[j]:g}')
        self.q = np.clip(positions, self._lower, self._upper)
        self.v = velocities

    def energy(self) -> float:
        """Return kinetic plus potential energy [J]."""
        return float(self.dynamics.kinetic_energy(self.q, self.v)
                     + self.dynamics.potential_energy(self.q))

    def step(self, tau: ArrayLike, duration: float, wrenches: Sequence[Wrench] = ()) -> None:
        """Move on by a time, with constant torques and wrenches.

        Args:
            tau: torques of the independent joints (n,) [Nm] or [N]. They saturate at the URDF's
                <limit effort>, where it is above 0 and finite.
            duration: [s], from 0 to LONGEST_STEP.
            wrenches: what pushes the arm meanwhile.

        Raises:
            InvalidArgumentError: a shape is wrong, a number not finite or the duration.
            UnknownNameError: a wrench acts on a link that the arm does not have.
            DivergedError: the numbers overflowed. The arm now rests at the last good position.
        """
        torques = self._vector('tau', tau)
        if not 0.0 <= duration <= LONGEST_STEP:
            raise InvalidArgumentError(
                f'duration must be 0 to {LONGEST_STEP:g} s, got {duration!r}')
        for wrench in wrenches:
            self.dynamics.arm.frame(wrench.frame)
        self.tau = np.clip(torques, -self._effort, self._effort)
        # Long steps may have more sub-steps than short ones, but a bound all the same.
        left = max(MOST_SUB_STEPS, 2 * ceil(duration / LONGEST_SUB_STEP))
        remaining = float(duration)
        with np.errstate(all='ignore'):
            while remaining > 0.0:
                remaining -= self._guarded(remaining, left, wrenches)
                left -= 1

    def _vector(self, name: str, value: ArrayLike) -> Array:
        # What a control loop passes is right most of the time: look at that first.
        if not (isinstance(value, np.ndarray) and value.dtype == np.float64
                and value.shape == (self._n,) and np.isfinite(value).all()):
            (checked,), batch = require_states(self.dynamics.joints, **{name: value})
            if batch:
                raise InvalidArgumentError(
                    f'{name} must have shape ({self._n},), got {np.shape(value)}')
            value = checked[0]
        return np.array(value)

    def _guarded(self, remaining: float, left: int, wrenches: Sequence[Wrench]) -> float:
        """Do one sub-step and return how long it was [s]."""
        try:
            h, q, v = self._sub_step(remaining, left, wrenches)
            good = bool((abs(v) < FASTEST).all()) and bool(np.isfinite(q).all())
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            good = False  # engines refuse states that are not finite, with a ValueError
        if not good:
            self.v = np.zeros(self._n)
            raise DivergedError(
                'the simulated arm became too fast for numbers: it was stopped at '
                + ', '.join(f'{name} = {position:.6g}' for name, position
                            in zip(self.dynamics.joints, self.q, strict=True)))
        self.q, self.v = q, v
        return h

    def _sub_step(self, remaining: float, left: int, wrenches: Sequence[Wrench]) -> tuple[
            float, Array, Array]:
        """Return the length [s] of the next sub-step, and q and v after it."""
        q, v = self.q, self.v
        Q = self.tau
        if wrenches:
            # In the middle of the sub-step, where a push in the axes of a turning link has its
            # mean direction.
            expected = self._length(remaining, left, v, np.zeros(self._n))
            Q = Q + self._external.external(q + 0.5 * expected * v, wrenches)
        a_1, _ = self._acceleration(q, v, Q)
        h = self._length(remaining, left, v, a_1)
        # Runge-Kutta of q'' = a(q, q').
        v_2 = v + 0.5 * h * a_1
        a_2, _ = self._acceleration(q + 0.5 * h * v, v_2, Q)
        v_3 = v + 0.5 * h * a_2
        a_3, _ = self._acceleration(q + 0.5 * h * v_2, v_3, Q)
        v_4 = v + h * a_3
        a_4, M = self._acceleration(q + h * v_3, v_4, Q)
        q_next = q + h / 6.0 * (v + 2.0 * (v_2 + v_3) + v_4)
        v_next = v + h / 6.0 * (a_1 + 2.0 * (a_2 + a_3) + a_4)
        at_lower, at_upper = q_next <= self._lower, q_next >= self._upper
        stopped = at_lower | at_upper
        at_a_stop = bool(stopped.any())
        if self._resists or at_a_stop:
            high = h * self._coulomb
            low = -high
            if at_a_stop:
                low, high = np.where(at_upper, -inf, low), np.where(at_lower, inf, high)
            v_resisted, stuck = resisted_velocity(
                M + h * self._damping, M @ v_next, np.where(v == 0.0, 0.0, v_next), low, high)
            # A constant force through the sub-step moves the joint by h / 2 of the velocity that
            # it changes.
            q_next = q_next + 0.5 * h * (v_resisted - v_next)
            v_next = v_resisted
            if stuck.any():
                # What stuck all the time has not moved, to the last bit.
                q_next = np.where(stuck & (v == 0.0), q, q_next)
                # What hit a stop is at it, not half a sub-step back.
                limit = np.where(at_lower, self._lower, self._upper)
                q_next = np.where(stuck & stopped, limit, q_next)
            # The push from a stop that another joint hits may move this one beyond its own.
            q_next = np.minimum(np.maximum(q_next, self._lower), self._upper)
        return h, q_next, v_next

    def _acceleration(self, q: Array, v: Array, Q: Array) -> tuple[Array, Array]:
        """Return a with M a = Q - C v - g, and M with its rotors."""
        M, C, g = self.dynamics.all_terms(q, v)
        M = M + self._rotor
        return _solved(M, Q - C @ v - g), M

    def _length(self, remaining: float, left: int, v: Array, a: Array) -> float:
        """Return how long the next sub-step is [s], `left` of them being allowed."""
        longest = LONGEST_SUB_STEP
        # rate * h + acceleration * h^2 / 2 <= turn, solved for h.
        rate, growth = float(abs(v) @ self._rates), float(abs(a) @ self._rates)
        speed = rate + sqrt(rate * rate + 2.0 * growth * LARGEST_TURN)
        if speed * longest > 2.0 * LARGEST_TURN:
            longest = 2.0 * LARGEST_TURN / speed
        count = remaining / longest
        if not count < left:  # also for what is not a number
            return remaining / left if left > 1 else remaining
        return remaining / ceil(count - 1e-9) if count > 1.0 else remaining


def _solved(A: Array, b: Array) -> Array:
    """Return x with A x = b."""
    if len(b) == 2:  # most arms here, and a call to LAPACK takes five times as long
        (a_11, a_12), (a_21, a_22) = A.tolist()
        b_1, b_2 = b.tolist()
        determinant = a_11 * a_22 - a_12 * a_21
        return np.array([
            (a_22 * b_1 - a_12 * b_2) / determinant, (a_11 * b_2 - a_21 * b_1) / determinant])
    return np.asarray(np.linalg.solve(A, b), dtype=np.float64)


def resisted_velocity(A: Array, momentum: Array, v: Array, low: Array, high: Array) -> tuple[
        Array, NDArray[np.bool_]]:
    r"""Return velocities under impulses that resist, and which joints stick.

    .. math:: A v^+ = p + \lambda, \quad
        \lambda_j = low_j \text{ if } v^+_j > 0, \quad \lambda_j = high_j \text{ if } v^+_j < 0,
        \quad low_j \le \lambda_j \le high_j \text{ if } v^+_j = 0

    Args:
        A: inertia (n, n), symmetric and positive definite: then there is exactly one solution.
        momentum: p, (n,).
        v: velocities (n,) whose signs are a guess of the solution's; 0 for a joint that sticks.
        low: (n,), at most 0; -infinity where a joint must not move up.
        high: (n,), at least 0; infinity where a joint must not move down.

    Returns:
        v+ (n,), exactly 0 where a joint sticks, and whether it does, (n,).
    """
    n = len(v)
    resists = high > low
    # +1: moves up under `low`, -1: moves down under `high`, 0: sticks. What nothing resists is
    # free, and its impulse is 0 whichever way it moves.
    sign = np.sign(v).astype(int)
    sign[((sign > 0) & (low == -inf)) | ((sign < 0) & (high == inf))] = 0
    sign[~resists] = 1
    for trial in range(8 + 4 * n * n):
        moves = sign != 0
        impulse = np.where(sign > 0, low, np.where(sign < 0, high, 0.0))
        if moves.all():
            result = _solved(A, momentum + impulse)
            wrong = resists & (sign * result < 0.0)
        else:
            result = np.zeros(n)
            if moves.any():
                result[moves] = _solved(
                    A[np.ix_(moves, moves)], (momentum + impulse)[moves])
            needed = A @ result - momentum  # of the joints that stick
            wrong = resists & np.where(
                moves, sign * result < 0.0, (needed < low) | (needed > high))
        if not wrong.any():
            return result, ~moves
        # All at once is the fastest way. It may go in circles; the first one alone never does.
        change = np.flatnonzero(wrong)
        if trial >= 8:
            change = change[:1]
        for j in change:
            sign[j] = 0 if sign[j] else (1 if needed[j] < low[j] else -1)
    # Rounding can leave two answers equally good. Sticking takes no energy from nowhere.
    return np.where(resists, 0.0, result), resists
