# SPDX-License-Identifier: Apache-2.0
r"""Other generalized coordinates, and transmissions (000, section 5.2.4 and example 5-3).

With dp = J dq (5-49) the same motion has, in p-coordinates,

.. math::
    M_p = J^{-T} M J^{-1}, \quad C_p = J^{-T} (C - M J^{-1} \dot J)\, J^{-1}, \quad
    g_p = J^{-T} g

and virtual work, the same in both, ties the forces: tau_q = J' tau_p.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import (
    LEAST_RECIPROCAL_CONDITION,
    Dynamics,
    as_numbers,
    in_one_line,
    require_states,
)
from ros_lagdyn.errors import InvalidArgumentError, LagdynError, SingularCoordinatesError
from ros_lagdyn.rigid_body import Array, apply


class Coordinates:
    """Coordinates p of an arm, defined by functions of joint positions q.

    Functions take and return batches: q of shape (N, n).
    """

    def __init__(
        self,
        *,
        names: tuple[str, ...],
        positions: Callable[[Array], Array],
        joint_positions: Callable[[Array], Array],
        jacobian: Callable[[Array], Array],
        jacobian_rate: Callable[[Array, Array], Array],
    ) -> None:
        """Take p(q), its inverse q(p), J(q) = dp/dq and its time derivative J'(q, v).

        Args:
            names: of the coordinates p.
            positions: p(q), (N, n) to (N, n).
            joint_positions: q(p), (N, n) to (N, n), on the branch that the caller works on.
            jacobian: J(q), (N, n) to (N, n, n), non-singular where it is used.
            jacobian_rate: dJ/dt, (N, n) and (N, n) to (N, n, n).
        """
        self.names = names
        self.positions = positions
        self.joint_positions = joint_positions
        self.jacobian = jacobian
        self.jacobian_rate = jacobian_rate


class LinearCoordinates(Coordinates):
    """Coordinates p = J q + offset with a constant J: gears, belts, remote drives."""

    def __init__(
        self,
        jacobian: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        """Take the constant J (n, n), and optionally an offset (n,) and names.

        Raises:
            InvalidArgumentError: J is not a square, finite, non-singular matrix.
        """
        J = as_numbers('J', jacobian)
        if J.ndim != 2 or J.shape[0] != J.shape[1] or not np.isfinite(J).all():
            raise InvalidArgumentError(f'J must be a finite square matrix, got shape {J.shape}')
        if _reciprocal_condition(J) < LEAST_RECIPROCAL_CONDITION:
            raise InvalidArgumentError(f'J must be non-singular, got {J.tolist()}')
        b = np.zeros(len(J)) if offset is None else as_numbers('offset', offset)
        if b.shape != (len(J),) or not np.isfinite(b).all():
            raise InvalidArgumentError(
                f'offset must be {len(J)} finite numbers, got {in_one_line(offset)}')
        if names is not None and len(names) != len(J):
            raise InvalidArgumentError(f'names must be {len(J)}, got {in_one_line(names)}')
        self.J = J
        self._inverse = np.linalg.inv(J)
        super().__init__(
            names=names or tuple(f'p{index + 1}' for index in range(len(J))),
            positions=lambda q: q @ J.T + b,
            joint_positions=lambda p: (p - b) @ self._inverse.T,
            jacobian=lambda q: np.broadcast_to(J, (len(q), *J.shape)),
            jacobian_rate=lambda q, v: np.zeros((len(q), *J.shape)),
        )

    def joint_torques(self, actuator_torques: ArrayLike) -> Array:
        """Return tau_q = J' tau_p, what actuators at p do at the joints; (n,) or (N, n)."""
        (tau,), batch = require_states(self.names, actuator_torques=actuator_torques)
        return (tau @ self.J) if batch else (tau @ self.J)[0]

    def actuator_torques(self, joint_torques: ArrayLike) -> Array:
        """Return tau_p = J^-T tau_q, what actuators at p must give; (n,) or (N, n)."""
        (tau,), batch = require_states(self.names, joint_torques=joint_torques)
        return (tau @ self._inverse) if batch else (tau @ self._inverse)[0]


class TransformedDynamics(Dynamics):
    """An arm of any engine, seen in other coordinates; fulfils the same contract."""

    def __init__(self, dynamics: Dynamics, coordinates: Coordinates) -> None:
        """Take the arm and the coordinates to see it in."""
        super().__init__(dynamics.arm, dynamics.gravity_vector)
        if len(coordinates.names) != len(dynamics.joints):
            raise InvalidArgumentError(
                f'{len(dynamics.joints)} coordinates are needed for the joints '
                f'{", ".join(dynamics.joints)}, got {len(coordinates.names)}')
        self.engine = dynamics.engine
        self._dynamics = dynamics
        self._coordinates = coordinates

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the coordinates p."""
        return self._coordinates.names

    @property
    def in_joint_coordinates(self) -> bool:
        """Say no: these are other coordinates."""
        return False

    @property
    def joint_rates_of_coordinates(self) -> Array:
        """J^-1, where it is constant."""
        if not isinstance(self._coordinates, LinearCoordinates):
            raise LagdynError('how large terms can be is known in joint coordinates and linear '
                              f'ones, not in {", ".join(self.joints)}')
        return np.asarray(self._dynamics.joint_rates_of_coordinates
                          @ np.linalg.inv(self._coordinates.J), dtype=float)

    def reciprocal_condition(self, M: Array) -> Array:
        """Return how regular mass matrices are: in joint coordinates where that is known."""
        if isinstance(self._coordinates, LinearCoordinates):
            return super().reciprocal_condition(M)
        return _reciprocal_condition(M)

    def _joint_positions(self, p: Array) -> Array:
        q = self._coordinates.joint_positions(p)
        reached = np.isfinite(q).all(axis=1)
        if not reached.all():
            first = int(np.argmin(reached))
            raise InvalidArgumentError(
                f'{", ".join(self.joints)} = {p[first].tolist()} is out of reach: no joint '
                f'positions lead there (state {first})')
        return q

    def _inverse_jacobian(self, q: Array) -> Array:
        J = self._coordinates.jacobian(q)
        ratio = _reciprocal_condition(J)
        if (ratio < LEAST_RECIPROCAL_CONDITION).any():
            worst = int(ratio.argmin())
            raise SingularCoordinatesError(
                state=worst, reciprocal_condition=float(ratio[worst]))
        return np.asarray(np.linalg.inv(J), dtype=float)

    def _regressor(self, p: Array, v: Array, a: Array) -> Array:
        q = self._joint_positions(p)
        inverse = self._inverse_jacobian(q)
        q_rate = apply(inverse, v)
        J_rate = self._coordinates.jacobian_rate(q, q_rate)
        turned = apply(J_rate, q_rate)  # a = J q'' + J' q'
        q_acceleration = apply(inverse, a - turned)
        return np.swapaxes(inverse, 1, 2) @ self._dynamics._regressor(q, q_rate, q_acceleration)

    def _mass_matrix(self, p: Array) -> Array:
        q = self._joint_positions(p)
        inverse = self._inverse_jacobian(q)
        return np.swapaxes(inverse, 1, 2) @ self._dynamics.mass_matrix(q) @ inverse

    def _coriolis_matrix(self, p: Array, v: Array) -> Array:
        q = self._joint_positions(p)
        inverse = self._inverse_jacobian(q)
        q_rate = apply(inverse, v)
        C = self._dynamics.coriolis_matrix(q, q_rate)
        M = self._dynamics.mass_matrix(q)
        J_rate = self._coordinates.jacobian_rate(q, q_rate)
        return np.swapaxes(inverse, 1, 2) @ (C - M @ inverse @ J_rate) @ inverse

    def _gravity(self, p: Array) -> Array:
        q = self._joint_positions(p)
        inverse = self._inverse_jacobian(q)
        return apply(np.swapaxes(inverse, 1, 2), self._dynamics.gravity(q))

    def _potential_energy(self, p: Array) -> Array:
        return np.asarray(self._dynamics.potential_energy(self._joint_positions(p)))

    def _frame_jacobian(self, p: Array, frame: str) -> Array:
        q = self._joint_positions(p)
        return self._dynamics.frame_jacobian(q, frame) @ self._inverse_jacobian(q)

    def frame_rotation(self, p: ArrayLike, frame: str) -> Array:
        """Return the rotation of a link's frame in root link axes; (3, 3) or (N, 3, 3)."""
        (p,), batch = require_states(self.joints, p=p)
        rotation = self._dynamics.frame_rotation(self._joint_positions(p), frame)
        return rotation if batch else rotation[0]


def _reciprocal_condition(J: Array) -> Array:
    """Return smallest over largest singular value; (..., n, n) gives (...,)."""
    values = np.linalg.svd(J, compute_uv=False)
    return np.asarray(values[..., -1] / np.maximum(values[..., 0], np.finfo(float).tiny))
