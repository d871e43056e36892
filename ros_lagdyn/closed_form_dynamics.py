# SPDX-License-Identifier: Apache-2.0
"""The engine that evaluates a textbook formula, for one state or for a batch.

A formula speaks in the coordinates of its document: theta = sign * q + phase, one sign and one
phase per joint. So the signs come back with each result: M_ij, C_ij with sign_i sign_j, g_i with
sign_i.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import Arm
from ros_lagdyn.closed_form import recognise
from ros_lagdyn.closed_form.formula import Formula, Matrix, Vector
from ros_lagdyn.dynamics import EARTH_GRAVITY, Dynamics, Terms, require_states
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.kinematics import Kinematics
from ros_lagdyn.rigid_body import Array


class ClosedFormDynamics(Dynamics):
    """Computes an arm by the formula of its mechanism."""

    engine = 'closed_form'

    def __init__(self, arm: Arm, gravity: ArrayLike = EARTH_GRAVITY) -> None:
        """Recognise the mechanism of `arm`.

        Raises:
            UnrecognisedMechanismError: no formula fits, or (AssumptionError) nearly fits.
        """
        super().__init__(arm, gravity)
        found = recognise(arm, self._gravity_vector)
        self.formula: Any = found.formula
        self._sign = np.array(found.sign)
        self._phase = np.array(found.phase)
        self._signs = np.outer(self._sign, self._sign)
        # The documents count heights from a point of their own, the contract from the root link.
        zero = np.zeros((1, len(arm.joints)))
        poses = Kinematics(arm).poses(arm.offset[None, :])
        masses = np.array([body.inertia.mass for body in arm.bodies])
        self._height_of_formula = 0.0
        self._height_of_formula = float(
            -(poses.com[0] @ self._gravity_vector) @ masses - self._potential_energy(zero)[0])
        self._prepare_single_states()

    @property
    def mechanism(self) -> str:
        """Stem of the mechanism that was recognised, such as 'two_link'."""
        formula: Formula = self.formula
        return formula.stem

    # A batch: formulas on columns of N numbers.

    def _columns(self, q: Array) -> list[Array]:
        return list(np.ascontiguousarray((self._sign * q + self._phase).T))

    def _rates(self, v: Array) -> list[Array]:
        return list(np.ascontiguousarray((self._sign * v).T))

    def _matrix(self, rows: Matrix, count: int) -> Array:
        result = np.empty((count, len(rows), len(rows[0])))
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                result[:, i, j] = entry
        return result

    def _mass_matrix(self, q: Array) -> Array:
        rows = self.formula.mass_matrix(self._columns(q), np)
        return self._signs * self._matrix(rows, len(q))

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        rows = self.formula.coriolis_matrix(self._columns(q), self._rates(v), np)
        return self._signs * self._matrix(rows, len(q))

    def _gravity(self, q: Array) -> Array:
        row = self.formula.gravity(self._columns(q), np)
        return self._sign * self._matrix((row,), len(q))[:, 0]

    def _potential_energy(self, q: Array) -> Array:
        return np.broadcast_to(
            self.formula.potential_energy(self._columns(q), np) + self._height_of_formula,
            (len(q),)).copy()

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        columns, rates, accelerations = self._columns(q), self._rates(v), self._rates(a)
        M = self.formula.mass_matrix(columns, np)
        C = self.formula.coriolis_matrix(columns, rates, np)
        g = self.formula.gravity(columns, np)
        return self._sign * self._matrix((_torque(M, C, g, rates, accelerations),), len(q))[:, 0]

    # One state: the same formulas on plain floats, which is many times faster than arrays of
    # one element. Whatever is not a plain vector of finite floats takes the general way.

    def _prepare_single_states(self) -> None:
        n = len(self.joints)
        self._shape = (n,)
        signs = self._sign.tolist()
        # For each joint whose formula coordinate is not its position: index, sign, phase.
        self._shifted = [(index, sign, phase) for index, (sign, phase) in enumerate(
            zip(signs, self._phase.tolist(), strict=True)) if (sign, phase) != (1.0, 0.0)]
        self._flipped = any(sign != 1.0 for sign in signs)
        self._pack_terms = Struct(f'{2 * n * n + n}d').pack_into
        self._bytes_of_terms = 8 * (2 * n * n + n)
        self._rows_of_terms = (2 * n + 1, n)

    def _single(self, *states: Any) -> list[list[float]] | None:
        """Return states as lists in the formula's coordinates, or None where one is not plain."""
        lists = []
        for state in states:
            if type(state) is not np.ndarray or state.shape != self._shape:
                return None
            numbers = state.tolist()
            if type(numbers[0]) is not float or not math.isfinite(sum(numbers)):
                return None
            lists.append(numbers)
        for index, sign, phase in self._shifted:
            lists[0][index] = sign * lists[0][index] + phase
            for rates in lists[1:]:
                rates[index] *= sign
        return lists

    def mass_matrix(self, q: ArrayLike) -> Array:
        """Return M(q), symmetric; shape (n, n) or (N, n, n)."""
        single = self._single(q)
        if single is None:
            return super().mass_matrix(q)
        M = np.array(self.formula.mass_matrix(single[0], math))
        return self._signs * M if self._flipped else M

    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return C(q, v) from Christoffel symbols, so M' - 2 C is skew; (n, n) or (N, n, n)."""
        single = self._single(q, v)
        if single is None:
            return super().coriolis_matrix(q, v)
        C = np.array(self.formula.coriolis_matrix(*single, math))
        return self._signs * C if self._flipped else C

    def gravity(self, q: ArrayLike) -> Array:
        """Return g(q) = dU/dq, the torque that holds the arm still; shape (n,) or (N, n)."""
        single = self._single(q)
        if single is None:
            return super().gravity(q)
        g = np.array(self.formula.gravity(single[0], math))
        return self._sign * g if self._flipped else g

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return tau = M(q) a + C(q, v) v + g(q); shape (n,) or (N, n)."""
        single = self._single(q, v, a)
        if single is None:
            return super().inverse_dynamics(q, v, a)
        position, rate, acceleration = single
        tau = np.array(_torque(
            self.formula.mass_matrix(position, math),
            self.formula.coriolis_matrix(position, rate, math),
            self.formula.gravity(position, math), rate, acceleration))
        return self._sign * tau if self._flipped else tau

    def all_terms(self, q: ArrayLike, v: ArrayLike) -> Terms:
        """Return M, C and g at once: cheaper than three calls."""
        single = self._single(q, v)
        if single is None:
            return super().all_terms(q, v)
        position, rate = single
        formula = self.formula
        n = len(position)
        buffer = bytearray(self._bytes_of_terms)
        self._pack_terms(
            buffer, 0,
            *sum(formula.mass_matrix(position, math), ()),
            *sum(formula.coriolis_matrix(position, rate, math), ()),
            *formula.gravity(position, math))
        rows = np.ndarray(self._rows_of_terms, float, buffer)
        if self._flipped:
            rows[:n] *= self._signs
            rows[n:2 * n] *= self._signs
            rows[2 * n] *= self._sign
        return Terms(rows[:n], rows[n:2 * n], rows[2 * n])

    # Linearity in the parameters.

    @property
    def minimal_parameters(self) -> Array:
        """Theta of M a + C v + g = Y Theta, as the document groups it (001); shape (l,)."""
        self._require_minimal()
        return np.array(self.formula.parameters)

    def minimal_regressor(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return Y(q, v, a) with Y Theta = tau; shape (n, l) or (N, n, l).

        Raises:
            LagdynError: the documents give no such regressor for this mechanism.
        """
        self._require_minimal()
        (q, v, a), batch = require_states(self.joints, q=q, v=v, a=a)
        rows = self.formula.regressor(self._columns(q), self._rates(v), self._rates(a), np)
        Y = self._sign[:, None] * self._matrix(rows, len(q))
        return Y if batch else Y[0]

    def _require_minimal(self) -> None:
        if not hasattr(self.formula, 'regressor'):
            raise LagdynError(f'mechanism "{self.mechanism}" has no minimal regressor in the '
                              'documents, only "two_link" has; use the general regressor()')


def _torque(M: Matrix, C: Matrix, g: Vector, v: Any, a: Any) -> Vector:
    """Return M a + C v + g, entry by entry."""
    return tuple(
        sum(m * x for m, x in zip(M_row, a, strict=True))
        + sum(c * x for c, x in zip(C_row, v, strict=True)) + g_i
        for M_row, C_row, g_i in zip(M, C, g, strict=True))
