# SPDX-License-Identifier: Apache-2.0
"""An arm as it is now: URDF, payload, gravity, friction, motors, and an engine that checks.

Whatever changes while an arm works becomes a new LiveModel, so that all engines change at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.cross_check import CrossCheck, Disagreement
from ros_lagdyn.dynamics import (
    EARTH_GRAVITY,
    ENGINES,
    LARGEST_STATE,
    Dynamics,
    Terms,
    dynamics_from_slim_urdf,
)
from ros_lagdyn.errors import (
    InvalidArgumentError,
    LagdynError,
    UnknownNameError,
    UnrecognisedMechanismError,
)
from ros_lagdyn.generalized_forces import ForcedDynamics, Wrench
from ros_lagdyn.laws import check_laws
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.sampling import random_states
from ros_lagdyn.urdf_model import arm_from_slim_urdf
from ros_lagdyn.urdf_text import read_urdf_text, slim_urdf, with_payload

TOOL = 'tool0'  # ROS's name of the frame at which tools are mounted
AUTO = 'auto'  # a check_engine: whichever differs from the engine
SELF_TEST_STATES = 10
MANY_JOINTS = 12
SELF_TEST_SEED = 0
SELF_TEST_TOLERANCE = 1e-9  # relative; engines that differ by rounding alone stay below 1e-12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an arm's URDF does not say, or says otherwise. Units are SI."""

    engine: str = 'closed_form'  # whose numbers count
    check_engine: str = AUTO  # which one they are compared with
    gravity: tuple[float, ...] = EARTH_GRAVITY  # [m/s^2], in the axes of gravity_frame
    gravity_frame: str = ''  # a link that is fixed to the root; empty for the root itself
    payload_mass: float = 0.0  # [kg]
    payload_com: tuple[float, ...] = (0.0, 0.0, 0.0)  # [m], in the frame of the link
    payload_frame: str = ''  # link that carries it; empty for the tip of the arm
    friction: bool = False  # whether torques overcome friction
    viscous: tuple[float, ...] = ()  # [Nm s/rad], one per joint; empty for the URDF's
    coulomb: tuple[float, ...] = ()  # [Nm], one per joint; empty for the URDF's
    actuation: tuple[float, ...] = ()  # B by rows, joint torques = B motor torques
    actuators: tuple[str, ...] = ()  # names of the motors, one for each column of B


class Engines(NamedTuple):
    """Which engine counts, which one checks it, and why these, where not as asked for."""

    main: Dynamics
    check: Dynamics
    note: str


class State(NamedTuple):
    """Positions, velocities and accelerations of one state, each (n,)."""

    q: Array
    v: Array
    a: Array


class Answer(NamedTuple):
    """What an arm needs at one state."""

    terms: Terms  # M, C, g
    coriolis: Array  # C v, (n,)
    rigid_torque: Array  # M a + C v + g, (n,)
    torque: Array  # the same, with friction where enabled, less J'F of the wrenches; (n,)


class LiveModel:
    """One arm with all that acts on it, computed by one engine and checked by another.

    Attributes:
        dynamics: the engine whose numbers count.
        check_dynamics: the engine that checks it.
        note: what the user should know, such as that no formula fits; may be empty.
        actuators: names of the motors where there is a transmission, else empty.
    """

    def __init__(self, urdf: str, settings: Settings) -> None:
        """Build both engines.

        Args:
            urdf: XML text; never a path, so that no message can make a file be opened.
            settings: what the URDF does not say.

        Raises:
            LagdynError: the URDF is no possible arm, or a setting does not fit it.
        """
        text = slim_urdf(read_urdf_text(urdf.encode(errors='surrogatepass')))
        bare = arm_from_slim_urdf(text)
        gravity = gravity_in_root(bare, settings.gravity, settings.gravity_frame)
        self.payload_frame = settings.payload_frame or tip_frame(bare)
        bare.frame(self.payload_frame)  # raises for an unknown link, also without a payload
        if settings.payload_mass > 0.0:
            text = with_payload(text, frame=self.payload_frame, mass=settings.payload_mass,
                                com=settings.payload_com)
        self.settings = settings
        self.links = tuple(bare.frames)  # of the arm without its payload
        self.tip = tip_frame(bare)
        self.dynamics, self.check_dynamics, self.note = _load_engines(text, settings, gravity)
        self.cross_check = CrossCheck(self.dynamics, self.check_dynamics)
        self.forced = ForcedDynamics(
            self.dynamics, viscous=settings.viscous or None, coulomb=settings.coulomb or None)
        self.actuators, self._motor_torques = _transmission(self.arm, settings)

    @property
    def arm(self) -> Arm:
        """The arm, payload included."""
        return self.dynamics.arm

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the independent joints, in the order of every vector."""
        return self.dynamics.joints

    def answer(self, q: Array, v: Array, wished: State, wrenches: Sequence[Wrench] = ()) -> Answer:
        """Compute every term at one state.

        Args:
            q: positions (n,).
            v: velocities (n,).
            wished: the state and acceleration for which the torque is asked.
            wrenches: what pushes the arm, compensated by the torque.
        """
        terms = self.dynamics.all_terms(q, v)
        rigid = self.dynamics.inverse_dynamics(*wished)
        return Answer(terms, terms.coriolis_matrix @ v, rigid,
                      rigid + self._resistance(wished, wrenches))

    def torque(self, state: State, wrenches: Sequence[Wrench] = ()) -> Array:
        """Return the torque (n,) of a state, friction and wrenches as in answer()."""
        return self.dynamics.inverse_dynamics(*state) + self._resistance(state, wrenches)

    def _resistance(self, state: State, wrenches: Sequence[Wrench]) -> Array | float:
        """Return what a torque has to overcome beside inertia and gravity."""
        result: Array | float = 0.0
        if self.settings.friction:
            result = self.forced.friction(state.v)
        if wrenches:
            result = result - self.forced.external(state.q, wrenches)
        return result

    def actuator_torques(self, tau: Array) -> Array:
        """Return the motor torques that B turns into joint torques tau; (motors,)."""
        return self._motor_torques @ tau

    def largest_actuator_torques(self, limits: Array) -> Array:
        """Return how much torque (motors,) joint torques within +-limits (n,) may take."""
        share = abs(self._motor_torques)
        with np.errstate(invalid='ignore'):  # no share in a joint without a limit: 0 * inf
            return np.where(share > 0.0, share * limits, 0.0).sum(axis=1)

    def check(self, q: Array, v: Array, wished: State, answer: Answer) -> Disagreement:
        """Return how far the check engine disagrees with an answer at the same state."""
        other = self.check_dynamics
        return self.cross_check.at(
            v, wished.v, wished.a, (answer.terms, answer.rigid_torque),
            (other.all_terms(q, v), other.inverse_dynamics(*wished)))

    def self_test(self, seed: int = SELF_TEST_SEED) -> float:
        """Check engines against each other and against physical laws at random states.

        Returns:
            How long it took [s].

        Raises:
            LagdynError: engines disagree, or one violates a law; says which and by how much.
        """
        started = time.perf_counter()
        # The cost of a state grows with the third power of the joints, mimic joints included.
        states = SELF_TEST_STATES if len(self.arm.bodies) <= MANY_JOINTS else 2
        q, v, a = random_states(self.arm, states, seed)
        found = self.cross_check(q, v, a)
        faults = []
        if not found.worst <= SELF_TEST_TOLERANCE:
            faults.append(f'{self.dynamics.engine} and {self.check_dynamics.engine} disagree by '
                          f'{found.worst:.1e}, more than {SELF_TEST_TOLERANCE:.0e}')
        for dynamics in (self.dynamics, self.check_dynamics):
            faults += [f'{dynamics.engine} violates "{result.law}" by {result.violation:.1e}, '
                       f'more than {result.tolerance:.1e}'
                       for result in check_laws(dynamics, q, v, a) if not result.holds]
        if faults:
            raise LagdynError(f'self-test of "{self.arm.name}" failed: ' + '; '.join(faults))
        return time.perf_counter() - started


def tip_frame(arm: Arm) -> str:
    """Return the link at the end of the arm.

    It is `tool0`, as ROS calls it, where there is one; else the link behind the most moving
    joints, fingers of a hand not counted, and of several the one that the URDF has last.
    """
    if TOOL in arm.frames:
        return TOOL
    depth = {BASE: 0}
    children: dict[int, list[int]] = {}
    for index, body in enumerate(arm.bodies):
        depth[index] = depth[body.parent] + 1
        children.setdefault(body.parent, []).append(index)
    # Two or more bodies on another one, with nothing behind them, are fingers.
    fingers = {finger for parent, some in children.items() if parent != BASE and len(some) > 1
               and not any(child in children for child in some) for finger in some}
    frames = [name for name in arm.frames if arm.frames[name].body not in fingers]
    return max(reversed(frames), key=lambda name: depth[arm.frames[name].body])


def gravity_in_root(arm: Arm, gravity: Sequence[float], frame_name: str) -> Array:
    """Return gravity (3,) [m/s^2], given in the axes of a link, in those of the root link.

    Args:
        arm: the arm.
        gravity: (3,) [m/s^2].
        frame_name: a link that is fixed to the root link; empty for the root link itself.

    Raises:
        LagdynError: there is no such link, or it moves.
    """
    vector = np.array(gravity, dtype=float)
    if not frame_name:
        return vector
    frame = arm.frame(frame_name)
    if frame.body != BASE:
        raise InvalidArgumentError(
            f'gravity_frame must be a link that is fixed to the root link, but '
            f'"{frame_name}" moves with joint "{arm.bodies[frame.body].joint.name}"')
    return frame.placement.rotation @ vector


def _load_engines(text: str, settings: Settings, gravity: Array) -> Engines:
    main, check = settings.engine, settings.check_engine
    if check == AUTO:
        check = 'pinocchio' if main != 'pinocchio' else 'closed_form'
    for engine in (main, check):
        if engine not in ENGINES:
            raise UnknownNameError('engine', engine, ENGINES)
    if main == check:
        raise InvalidArgumentError(
            f'engine and check_engine must differ, both are {main}; with check_engine {AUTO} '
            'the right one is chosen')
    note = ''
    try:
        loaded = {name: dynamics_from_slim_urdf(text, name, gravity) for name in (main, check)}
    except UnrecognisedMechanismError as error:
        # The general recipe is as independent of Pinocchio as a formula is.
        main, check = ('lagrangian', 'pinocchio') if main == 'lagrangian' else (
            'pinocchio', 'lagrangian')
        note = (f'no closed form fits ({error}): {main} computes, {check} checks it, which costs '
                'more; where answers come too late, raise cross_check.every')
        loaded = {name: dynamics_from_slim_urdf(text, name, gravity) for name in (main, check)}
    return Engines(loaded[main], loaded[check], note)


def _transmission(arm: Arm, settings: Settings) -> tuple[tuple[str, ...], Array]:
    """Return the names of the motors, and the matrix from joint torques to theirs.

    An arm whose joints drive others by mimic tags has its motors at its independent joints.
    """
    n = len(arm.joints)
    if not settings.actuation:
        if settings.actuators:
            raise InvalidArgumentError('actuation.names are given without actuation.matrix')
        return (arm.joints if arm.has_mimic else ()), np.eye(n)
    if len(settings.actuation) % n:
        raise InvalidArgumentError(
            f'actuation.matrix must have {n} rows, one for each of {", ".join(arm.joints)}, got '
            f'{len(settings.actuation)} numbers')
    B = np.array(settings.actuation).reshape(n, -1)
    names = settings.actuators or tuple(f'motor{index + 1}' for index in range(B.shape[1]))
    if len(set(names)) != len(names) or '' in names:
        raise InvalidArgumentError(
            f'actuation.names must be different names, got {list(names)}')
    if len(names) != B.shape[1]:
        raise InvalidArgumentError(
            f'actuation.names must be {B.shape[1]} names, one for each column of '
            f'actuation.matrix, got {len(names)}')
    if np.linalg.matrix_rank(B) < n:
        raise InvalidArgumentError(
            'actuation.matrix must have full row rank, else the motors cannot produce every '
            f'joint torque; its rank is {np.linalg.matrix_rank(B)} with {n} joints')
    with np.errstate(all='ignore'):
        to_motors = np.linalg.pinv(B)
    if not (abs(to_motors) <= LARGEST_STATE).all():
        raise InvalidArgumentError(
            'actuation.matrix is too close to zero: motor torques would be more than '
            f'{LARGEST_STATE:g} times the joint torques')
    return tuple(names), to_motors
