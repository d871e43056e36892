# SPDX-License-Identifier: Apache-2.0
"""The engine that evaluates a textbook formula, for one state or for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import Arm
from ros_lagdyn.closed_form import recognise
from ros_lagdyn.closed_form.compiled import CompiledFormula
from ros_lagdyn.closed_form.formula import Formula, Vector
from ros_lagdyn.dynamics import EARTH_GRAVITY, Dynamics, Terms, require_states
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.rigid_body import Array

CHUNK = 2048  # states per pass of a batch: its columns stay in the processor's cache


class ClosedFormDynamics(Dynamics):
    """Computes an arm by the formula of its mechanism.

    Attributes:
        formula: the mechanism's formula with the parameters read off this arm, in the symbols of
            its document, such as TwoLink(m_1=..., l_1=..., ...).
    """

    engine = 'closed_form'

    def __init__(self, arm: Arm, gravity: ArrayLike = EARTH_GRAVITY) -> None:
        """Recognise the mechanism of `arm`.

        Raises:
            UnrecognisedMechanismError: no formula fits, or (AssumptionError) nearly fits.
        """
        super().__init__(arm, gravity)
        self._recognised = recognise(arm, self._gravity_vector)
        self.formula: Any = self._recognised.formula
        self._compiled = CompiledFormula(self._recognised)
        # The documents count heights from a point of their own, the contract from the root link.
        zero = np.zeros((1, len(arm.joints)))
        true_energy = self._kinematics.potential_energy(zero, self._gravity_vector)
        of_formula = self._evaluate(self._compiled.potential_energy.columns, zero)
        self._height = float(true_energy[0] - of_formula[0, 0])
        # One state: the same code on plain floats, many times faster than on arrays of one
        # element. It stands before the contract's own methods, and hands them what it cannot
        # take: a batch, a list, or something wrong.
        for name, term in (
            ('mass_matrix', self._compiled.mass_matrix),
            ('coriolis_matrix', self._compiled.coriolis_matrix),
            ('gravity', self._compiled.gravity),
            ('inverse_dynamics', self._compiled.inverse_dynamics),
            ('all_terms', self._compiled.terms),
        ):
            setattr(self, name, term.single(getattr(super(), name)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what it was made from: compiled code has no pickle."""
        return ClosedFormDynamics, (self.arm, self._gravity_vector)

    @property
    def mechanism(self) -> str:
        """Stem of the mechanism that was recognised, such as 'two_link'."""
        formula: Formula = self.formula
        return formula.stem

    # A batch: the compiled formula on columns, a chunk of states at a time.

    def _evaluate(self, function: Callable[..., Vector], *states: Array) -> Array:
        """Return the entries of a term, one column each; shape (N, entries)."""
        result = None
        for start in range(0, max(len(states[0]), 1), CHUNK):
            rows = slice(start, start + CHUNK)
            entries = function(*(
                column for state in states for column in np.ascontiguousarray(state[rows].T)))
            if result is None:
                result = np.empty((len(states[0]), len(entries)))
            for index, entry in enumerate(entries):
                result[rows, index] = entry
        assert result is not None  # the loop ran at least once
        return result

    def _square(self, entries: Array) -> Array:
        n = len(self.joints)
        return entries.reshape(len(entries), n, n)

    def _mass_matrix(self, q: Array) -> Array:
        return self._square(self._evaluate(self._compiled.mass_matrix.columns, q))

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        return self._square(self._evaluate(self._compiled.coriolis_matrix.columns, q, v))

    def _gravity(self, q: Array) -> Array:
        return self._evaluate(self._compiled.gravity.columns, q)

    def _potential_energy(self, q: Array) -> Array:
        return self._evaluate(self._compiled.potential_energy.columns, q)[:, 0] + self._height

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        return self._evaluate(self._compiled.inverse_dynamics.columns, q, v, a)

    def _all_terms(self, q: Array, v: Array) -> Terms:
        n = len(self.joints)
        entries = self._evaluate(self._compiled.terms.columns, q, v)
        return Terms(self._square(entries[:, :n * n]), self._square(entries[:, n * n:2 * n * n]),
                     entries[:, 2 * n * n:])

    # Linearity in the parameters.

    @property
    def minimal_parameters(self) -> Array:
        """Theta of M a + C v + g = Y Theta, as the document groups it (001); shape (l,).

        For two_link: Theta_1 to Theta_5 of closed_form/two_link.py, and Theta_6 where link 1's
        centre of mass lies off its line.

        Raises:
            LagdynError: the documents give no such parameters for this mechanism.
        """
        self._require_minimal()
        return np.array(self.formula.parameters)

    def minimal_regressor(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return Y(q, v, a) with Y Theta = tau; shape (n, l) or (N, n, l).

        Raises:
            LagdynError: the documents give no such regressor for this mechanism.
        """
        self._require_minimal()
        (q, v, a), batch = require_states(self.joints, q=q, v=v, a=a)
        sign, phase = np.array(self._recognised.sign), np.array(self._recognised.phase)
        rows = self.formula.regressor((sign * q + phase).T, (sign * v).T, (sign * a).T, np)
        Y = np.empty((len(q), len(rows), len(rows[0])))
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                Y[:, i, j] = sign[i] * entry
        return Y if batch else Y[0]

    def _require_minimal(self) -> None:
        if not hasattr(self.formula, 'regressor'):
            raise LagdynError(f'mechanism "{self.mechanism}" has no minimal regressor in the '
                              'documents, only "two_link" has; use the general regressor()')
