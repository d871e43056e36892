# SPDX-License-Identifier: Apache-2.0
"""Physical laws that a correct engine obeys, measured at a batch of states.

No single law is enough: a Coriolis matrix M'/2 is skew and conserves energy but is not
Lagrange's; one that is right in C v alone breaks skew symmetry; a wrong sign of gravity breaks
only the energy.

Derivatives are central differences with the optimal step eps^(1/3), so those laws hold to about
eps^(2/3), with two digits of margin; the others hold to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import LEAST_RECIPROCAL_CONDITION, Dynamics, require_states
from ros_lagdyn.regressor import parameter_vector, regressor
from ros_lagdyn.rigid_body import Array, apply
from ros_lagdyn.term_scales import TermScales, relative

EPS = float(np.finfo(float).eps)
STEP = EPS ** (1 / 3)  # optimal step of a central difference
DIFFERENCE_ERROR = 100 * STEP**2  # its relative error, with two digits of margin
# Differences magnify the rounding of positions by 1 / STEP, so the scales are blurred more.
BLUR = 1e-2
ROUNDING = 1000 * EPS  # some hundred operations on numbers of the size of the scale


@dataclass(frozen=True, kw_only=True)
class LawResult:
    """How far an engine is from obeying a law, at the worst of the states."""

    law: str
    violation: float  # relative to how large the terms of this arm can be
    tolerance: float

    @property
    def holds(self) -> bool:
        """Say whether the violation is no more than numerical error."""
        return self.violation <= self.tolerance


@dataclass(frozen=True, kw_only=True, eq=False)
class _Case:
    """One engine at a batch of states, with everything that more than one law needs."""

    dynamics: Dynamics
    scales: TermScales
    q: Array
    v: Array
    a: Array
    M: Array
    C: Array
    g: Array
    tau: Array

    @property
    def small_time(self) -> Array:
        """A time step (N,) [s] in which every joint moves by about STEP."""
        brisk = self.scales.rate(self.v) + np.sqrt(self.scales.rate(self.a))
        return STEP / np.maximum(brisk, STEP)

    def along_motion(self, function: Callable[[Array, Array], Array]) -> Array:
        """Return the time derivative of function(q, v) while the arm moves with v and a."""
        h = self.small_time[:, None]
        after = function(self.q + h * self.v + 0.5 * h**2 * self.a, self.v + h * self.a)
        before = function(self.q - h * self.v + 0.5 * h**2 * self.a, self.v - h * self.a)
        return (after - before) / (2.0 * h.reshape(-1, *(1,) * (after.ndim - 1)))

    def gradient(self, function: Callable[[Array], Array]) -> Array:
        """Return d function(q) / dq_k as the last axis."""
        columns = []
        for k, weight in enumerate(self.scales.rate_weights):
            step = np.zeros(self.q.shape[1])
            step[k] = STEP / weight
            columns.append((function(self.q + step) - function(self.q - step)) / (2.0 * step[k]))
        return np.stack(columns, axis=-1)

    def kinetic(self, q: Array, v: Array) -> Array:
        return np.asarray(self.dynamics.kinetic_energy(q, v))

    def potential(self, q: Array) -> Array:
        return np.asarray(self.dynamics.potential_energy(q))

    def energy_scale(self) -> Array:
        """How large the energies are (N,) [J], rounding errors of which differences magnify."""
        return ((abs(self.v) @ self.scales.S * abs(self.v)).sum(-1)
                + abs(self.potential(self.q)) + (self.scales.G / self.scales.rate_weights).max())


def _symmetric(case: _Case) -> float:
    return relative(case.M - np.swapaxes(case.M, 1, 2), case.scales.S)


def _positive_definite(case: _Case) -> float:
    """Share of the states where M is not positive definite."""
    return float((np.linalg.eigvalsh(case.M)[:, 0] <= 0.0).mean())


def _skew(case: _Case) -> float:
    rate = case.along_motion(lambda q, v: case.dynamics.mass_matrix(q))
    N = rate - 2.0 * case.C
    # The step shrinks with the acceleration too, and rounding of M with it.
    brisk = STEP / case.small_time
    return relative(N + np.swapaxes(N, 1, 2), brisk[:, None, None] * case.scales.S)


def _quadratic(case: _Case) -> float:
    """Compare C v with M' v - dT/dq."""
    M_rate = case.along_motion(lambda q, v: case.dynamics.mass_matrix(q))
    dT = case.gradient(lambda q: case.kinetic(q, case.v))
    brisk = STEP / case.small_time
    scale = (brisk[:, None] * abs(case.v)) @ case.scales.S
    energies = (abs(case.v) @ case.scales.S * abs(case.v)).sum(-1)
    return relative(apply(case.C, case.v) - (apply(M_rate, case.v) - dT),
                    scale + energies[:, None] * case.scales.rate_weights)


def _gradient_of_potential(case: _Case) -> float:
    dU = case.gradient(case.potential)
    scale = case.scales.G + abs(case.potential(case.q))[:, None] * case.scales.rate_weights
    return relative(case.g - dU, scale)


def _lagrange(case: _Case) -> float:
    """Compare d/dt dL/dv - dL/dq with tau."""
    momentum_rate = case.along_motion(lambda q, v: apply(case.dynamics.mass_matrix(q), v))
    dL = case.gradient(lambda q: case.kinetic(q, case.v) - case.potential(q))
    brisk = (STEP / case.small_time)[:, None]
    speeds = abs(case.v) + abs(case.a) / brisk
    scale = brisk * speeds @ case.scales.S + (
        case.energy_scale()[:, None] * case.scales.rate_weights)
    return relative(momentum_rate - dL - case.tau, scale)


def _sum_of_terms(case: _Case) -> float:
    return relative(apply(case.M, case.a) + apply(case.C, case.v) + case.g - case.tau,
                    case.scales.torque(case.v, case.a))


def _power(case: _Case) -> float:
    """Compare the power of tau with the rate of the energy."""
    rate = case.along_motion(lambda q, v: case.kinetic(q, v) + case.potential(q))
    brisk = STEP / case.small_time
    speeds = abs(case.v) + abs(case.a) / brisk[:, None]
    energies = (speeds @ case.scales.S * speeds).sum(-1) + case.energy_scale()
    return relative((case.v * case.tau).sum(-1) - rate, brisk * energies)


def _round_trip(case: _Case) -> float:
    """Compare M times the acceleration that forward dynamics finds with M a."""
    regular = case.dynamics.reciprocal_condition(case.M) >= LEAST_RECIPROCAL_CONDITION
    if not regular.any():
        return 0.0
    q, v, a, tau = (x[regular] for x in (case.q, case.v, case.a, case.tau))
    back = case.dynamics.forward_dynamics(q, v, tau)
    return relative(apply(case.M[regular], back - a), case.scales.torque(v, a))


def _linear_in_parameters(case: _Case) -> float:
    Y = regressor(case.dynamics, case.q, case.v, case.a)
    return relative(Y @ parameter_vector(case.dynamics.arm) - case.tau,
                    case.scales.torque(case.v, case.a))


_LAWS: tuple[tuple[str, Callable[[_Case], float], float], ...] = (
    ('M is symmetric', _symmetric, ROUNDING),
    ('M is positive definite', _positive_definite, 0.0),
    ("M' - 2 C is skew-symmetric", _skew, DIFFERENCE_ERROR),
    ("C v = M' v - dT/dq", _quadratic, DIFFERENCE_ERROR),
    ('g = dU/dq', _gradient_of_potential, DIFFERENCE_ERROR),
    ("Lagrange's equation gives tau", _lagrange, DIFFERENCE_ERROR),
    ('tau = M a + C v + g', _sum_of_terms, ROUNDING),
    ('power of tau = rate of energy', _power, DIFFERENCE_ERROR),
    ('forward of inverse dynamics = a', _round_trip, ROUNDING),
    ('Y theta = tau', _linear_in_parameters, ROUNDING),
)
LAW_NAMES = tuple(name for name, _, _ in _LAWS)


def check_laws(dynamics: Dynamics, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> tuple[
        LawResult, ...]:
    """Measure every law of LAW_NAMES for one engine, at one state (n,) or a batch (N, n)."""
    (q, v, a), _ = require_states(dynamics.joints, q=q, v=v, a=a)
    M, C, g = dynamics.all_terms(q, v)
    tau = dynamics.inverse_dynamics(q, v, a)
    if not all(np.isfinite(term).all() for term in (M, C, g, tau, dynamics.potential_energy(q))):
        # An engine that returns no numbers obeys no law.
        return tuple(LawResult(law=name, violation=float('inf'), tolerance=tolerance)
                     for name, _, tolerance in _LAWS)
    case = _Case(dynamics=dynamics, scales=TermScales(dynamics, BLUR), q=q, v=v, a=a,
                 M=M, C=C, g=g, tau=tau)
    return tuple(LawResult(law=name, violation=measure(case), tolerance=tolerance)
                 for name, measure, tolerance in _LAWS)
