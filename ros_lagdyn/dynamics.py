# SPDX-License-Identifier: Apache-2.0
r"""The contract that every engine fulfils.

.. math:: M(q)\,\dot v + C(q, v)\,v + g(q) = \tau

Gravity stands on the left: a motor that holds the arm still applies +g(q).

States come alone, as vectors of shape (n,), or as a batch of N, of shape (N, n). What goes in as
a batch comes out as one. Units are SI: rad, rad/s, Nm for revolute joints, m, m/s, N for
prismatic ones. Results are float64 arrays that belong to the caller.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import Arm
from ros_lagdyn.errors import (
    InvalidArgumentError,
    LagdynError,
    SingularMassMatrixError,
    UnknownNameError,
)
from ros_lagdyn.kinematics import Kinematics
from ros_lagdyn.rigid_body import Array, apply

ENGINES = ('closed_form', 'lagrangian', 'pinocchio')
EARTH_GRAVITY = (0.0, 0.0, -9.81)  # [m/s^2], in the axes of the root link

MOST_GRAVITY = 1e6  # [m/s^2], far above any world's, far below what overflows
# Of measured or wished positions, rates and accelerations: beyond it a cosine has lost its digits,
# below it no product of an engine overflows.
LARGEST_STATE = 1e9

# Below this reciprocal condition of M, fewer than four digits of an acceleration are right.
LEAST_RECIPROCAL_CONDITION = 1e-12


def load_dynamics(
    urdf: str | bytes | os.PathLike[str],
    engine: str = 'closed_form',
    gravity: ArrayLike = EARTH_GRAVITY,
) -> Dynamics:
    """Load an arm from a URDF into one of the engines.

    Args:
        urdf: a path, or the XML text itself.
        engine: 'closed_form', 'lagrangian' or 'pinocchio'.
        gravity: acceleration of gravity (3,) [m/s^2], in the axes of the root link.

    Raises:
        UrdfError: the URDF cannot be read or is not a possible arm.
        UnrecognisedMechanismError: engine 'closed_form' has no formula for this arm.
        UnknownNameError: no such engine.
        LagdynError: engine 'pinocchio' where Pinocchio is not installed.
        InvalidArgumentError: gravity is not three finite numbers.
    """
    from ros_lagdyn.urdf_text import read_urdf_text, slim_urdf

    if engine not in ENGINES:
        raise UnknownNameError('engine', str(engine), ENGINES)
    return dynamics_from_slim_urdf(slim_urdf(read_urdf_text(urdf)), engine, gravity)


def dynamics_from_slim_urdf(text: str, engine: str, gravity: ArrayLike) -> Dynamics:
    """Load an arm from a text that urdf_text.slim_urdf() made; raises as load_dynamics does."""
    # Engines are imported when they are asked for: a user of the formulas needs no Pinocchio.
    from ros_lagdyn.urdf_model import arm_from_slim_urdf

    arm = arm_from_slim_urdf(text)
    if engine == 'closed_form':
        from ros_lagdyn.closed_form_dynamics import ClosedFormDynamics

        return ClosedFormDynamics(arm, gravity)
    if engine == 'lagrangian':
        from ros_lagdyn.lagrangian_dynamics import LagrangianDynamics

        return LagrangianDynamics(arm, gravity)
    try:
        from ros_lagdyn.pinocchio_dynamics import PinocchioDynamics
    except ModuleNotFoundError as error:
        if error.name != 'pinocchio':
            raise
        raise LagdynError('engine "pinocchio" needs Pinocchio: install it with pip (its name is '
                          'pin) or rosdep (pinocchio)') from None
    return PinocchioDynamics(arm, text, gravity)


class Terms(NamedTuple):
    """All terms of the equation of motion at one state, or at a batch of states."""

    mass_matrix: Array  # M, (n, n) or (N, n, n)
    coriolis_matrix: Array  # C, (n, n) or (N, n, n)
    gravity: Array  # g, (n,) or (N, n)


def in_one_line(value: object) -> str:
    """Return a value as short text for a message."""
    return ' '.join(repr(value).split())[:80]


def as_numbers(name: str, value: ArrayLike, what: str = 'numbers') -> Array:
    """Return a new float64 array of a value that must be real numbers.

    Raises:
        InvalidArgumentError: it is something else.
    """
    try:
        array = np.array(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind not in 'fiub':
        raise InvalidArgumentError(f'{name} must be {what}, got {in_one_line(value)}')
    return array.astype(float, copy=False)


def require_states(joints: tuple[str, ...], **states: ArrayLike) -> tuple[list[Array], bool]:
    """Return the states as arrays of shape (N, n), and whether they came as a batch.

    A single vector beside a batch is repeated for each of its states.

    Raises:
        InvalidArgumentError: wrong shape, a NaN or an infinity, or batches of unequal length.
    """
    size = len(joints)
    arrays = {}
    for name, value in states.items():
        array = as_numbers(name, value)
        if array.ndim not in (1, 2) or array.shape[-1] != size:
            raise InvalidArgumentError(
                f'{name} must have shape ({size},) or (N, {size}) for the joints '
                f'{", ".join(joints)}, got {array.shape}')
        if not np.isfinite(array).all():
            where = tuple(int(index) for index in np.argwhere(~np.isfinite(array))[0])
            raise InvalidArgumentError(
                f'{name} must be finite, got {array[where]} for joint {joints[where[-1]]}'
                + (f' at state {where[0]}' if array.ndim == 2 else ''))
        arrays[name] = array
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim == 2}
    if len(set(lengths.values())) > 1:
        raise InvalidArgumentError('batches must have equal lengths, got ' + ', '.join(
            f'{name}: {length}' for name, length in lengths.items()))
    count = next(iter(lengths.values()), 1)
    return ([np.broadcast_to(array, (count, size)) for array in arrays.values()], bool(lengths))


class Dynamics(ABC):
    """One arm, computed by one engine. Not to be shared between threads."""

    engine: str  # as load_dynamics names it

    def __init__(self, arm: Arm, gravity: ArrayLike = EARTH_GRAVITY) -> None:
        """Take the arm, and the acceleration of gravity (3,) [m/s^2] in root link axes."""
        self._gravity_vector = as_numbers('gravity', gravity, '3 finite numbers in m/s^2')
        if self._gravity_vector.shape != (3,) or not np.isfinite(self._gravity_vector).all():
            raise InvalidArgumentError(
                f'gravity must be 3 finite numbers in m/s^2, got {in_one_line(gravity)}')
        if abs(self._gravity_vector).max() > MOST_GRAVITY:
            raise InvalidArgumentError(
                f'gravity must be 3 numbers of at most {MOST_GRAVITY:g} m/s^2, got '
                f'{in_one_line(gravity)}')
        self._gravity_vector.flags.writeable = False
        self.arm = arm
        self._kinematics = Kinematics(arm)

    def __repr__(self) -> str:
        return f'<{type(self).__name__} of "{self.arm.name}", {", ".join(self.joints)}>'

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the independent joints, in the order of every vector."""
        return self.arm.joints

    @property
    def gravity_vector(self) -> Array:
        """Acceleration of gravity (3,) [m/s^2], in the axes of the root link."""
        return self._gravity_vector

    @property
    def in_joint_coordinates(self) -> bool:
        """Say whether q are the positions of the arm's own joints."""
        return True

    @property
    def joint_rates_of_coordinates(self) -> Array:
        """The constant matrix that turns dq into rates of the arm's joints; (n, n).

        Raises:
            LagdynError: these coordinates depend on the joints in a way that is not linear.
        """
        return np.eye(len(self.joints))

    def reciprocal_condition(self, M: Array) -> Array:
        """Return how regular mass matrices (N, n, n) are, from 0 to 1, whatever the units; (N,).

        It is the ratio of the eigenvalues of M scaled to a unit diagonal, or how small a
        diagonal entry is beside what it can be for this arm, where that is less.
        """
        diagonal = np.maximum(np.diagonal(M, axis1=1, axis2=2), 0.0)
        vanishing = (diagonal / self._largest_inertias).min(axis=1)
        roots = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
        eigenvalues = np.linalg.eigvalsh(M / (roots[:, :, None] * roots[:, None, :]))
        ratio = eigenvalues[:, 0] / np.maximum(eigenvalues[:, -1], np.finfo(float).tiny)
        return np.minimum(vanishing, ratio)

    @cached_property
    def _largest_inertias(self) -> Array:
        from ros_lagdyn.term_scales import TermScales

        return np.maximum(np.diagonal(TermScales(self).S), np.finfo(float).tiny)

    # What an engine computes, always for a batch of checked states of shape (N, n).

    @abstractmethod
    def _mass_matrix(self, q: Array) -> Array: ...

    @abstractmethod
    def _coriolis_matrix(self, q: Array, v: Array) -> Array: ...

    @abstractmethod
    def _gravity(self, q: Array) -> Array: ...

    @abstractmethod
    def _potential_energy(self, q: Array) -> Array: ...

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        return (apply(self._mass_matrix(q), a) + apply(self._coriolis_matrix(q, v), v)
                + self._gravity(q))

    def _all_terms(self, q: Array, v: Array) -> Terms:
        return Terms(self._mass_matrix(q), self._coriolis_matrix(q, v), self._gravity(q))

    def _frame_jacobian(self, q: Array, frame: str) -> Array:
        return self._kinematics.frame_jacobian(q, frame)

    def _regressor(self, q: Array, v: Array, a: Array) -> Array:
        from ros_lagdyn.regressor import tree_regressor

        return tree_regressor(self._kinematics, self._gravity_vector, q, v, a)

    # The contract.

    def mass_matrix(self, q: ArrayLike) -> Array:
        """Return M(q), symmetric; shape (n, n) or (N, n, n)."""
        (q,), batch = require_states(self.joints, q=q)
        return _same(self._mass_matrix(q), batch)

    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return C(q, v) from Christoffel symbols, so M' - 2 C is skew; (n, n) or (N, n, n)."""
        (q, v), batch = require_states(self.joints, q=q, v=v)
        return _same(self._coriolis_matrix(q, v), batch)

    def gravity(self, q: ArrayLike) -> Array:
        """Return g(q) = dU/dq, the torque that holds the arm still; shape (n,) or (N, n)."""
        (q,), batch = require_states(self.joints, q=q)
        return _same(self._gravity(q), batch)

    def kinetic_energy(self, q: ArrayLike, v: ArrayLike) -> Array | float:
        """Return T = v' M(q) v / 2 [J]; a float or shape (N,)."""
        (q, v), batch = require_states(self.joints, q=q, v=v)
        return _same_scalar(0.5 * (v * apply(self._mass_matrix(q), v)).sum(-1), batch)

    def potential_energy(self, q: ArrayLike) -> Array | float:
        """Return U(q) [J], zero where all mass is at the root link's origin; float or (N,)."""
        (q,), batch = require_states(self.joints, q=q)
        return _same_scalar(self._potential_energy(q), batch)

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return tau = M(q) a + C(q, v) v + g(q); shape (n,) or (N, n)."""
        (q, v, a), batch = require_states(self.joints, q=q, v=v, a=a)
        return _same(self._inverse_dynamics(q, v, a), batch)

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike) -> Array:
        """Return the acceleration a that tau causes; shape (n,) or (N, n).

        Raises:
            SingularMassMatrixError: M(q) has lost rank, as at the pole of a pendulum.
        """
        (q, v, tau), batch = require_states(self.joints, q=q, v=v, tau=tau)
        M = self._mass_matrix(q)
        regularity = self.reciprocal_condition(M)
        singular = ~(regularity >= LEAST_RECIPROCAL_CONDITION)
        if singular.any():
            first = int(np.argmax(singular))
            raise SingularMassMatrixError(
                state=first if batch else None,
                reciprocal_condition=float(regularity[first]), least=LEAST_RECIPROCAL_CONDITION)
        bias = self._inverse_dynamics(q, v, np.zeros_like(q))
        a = np.linalg.solve(M, (tau - bias)[..., None])[..., 0]
        return _same(np.asarray(a, dtype=float), batch)

    def all_terms(self, q: ArrayLike, v: ArrayLike) -> Terms:
        """Return M, C and g at once: cheaper than three calls."""
        (q, v), batch = require_states(self.joints, q=q, v=v)
        return Terms(*(_same(term, batch) for term in self._all_terms(q, v)))

    def frame_jacobian(self, q: ArrayLike, frame: str) -> Array:
        """Return J with (velocity, angular velocity) = J v of a link's frame.

        Args:
            q: positions.
            frame: a link name. Velocities are of its origin, in root link axes.

        Returns:
            Shape (6, n) or (N, 6, n), linear rows first.

        Raises:
            UnknownNameError: no such link.
        """
        (q,), batch = require_states(self.joints, q=q)
        return _same(self._frame_jacobian(q, frame), batch)

    def frame_rotation(self, q: ArrayLike, frame: str) -> Array:
        """Return the rotation of a link's frame in root link axes; (3, 3) or (N, 3, 3)."""
        (q,), batch = require_states(self.joints, q=q)
        return _same(np.array(self._kinematics.frame_rotation(q, frame)), batch)


def _same(result: Array, batch: bool) -> Array:
    return result if batch else result[0]


def _same_scalar(result: Array, batch: bool) -> Array | float:
    return result if batch else float(result[0])
