# SPDX-License-Identifier: Apache-2.0
r"""Passivity (001): what a motor puts in is what the arm's energy gains.

.. math:: \int_0^T v^T \tau\, dt = H(T) - H(0), \qquad H = \tfrac12 v^T M v + U
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import Dynamics, as_numbers, require_states
from ros_lagdyn.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class EnergyBalance:
    """Energy [J] that a recorded motion was given, and what the arm had of it."""

    supplied: float  # work of the torques
    gained: float  # H(T) - H(0)

    @property
    def error(self) -> float:
        """What is missing [J]: friction, other forces, a wrong model, or coarse sampling."""
        return self.supplied - self.gained


def energy_balance(dynamics: Dynamics, t: ArrayLike, q: ArrayLike, v: ArrayLike,
                   tau: ArrayLike) -> EnergyBalance:
    """Balance the energy of a recorded motion.

    The work is integrated by the trapezoidal rule, whose error falls with the square of the
    sampling interval.

    Args:
        dynamics: the arm.
        t: times (N,) [s], increasing.
        q: positions (N, n).
        v: velocities (N, n).
        tau: torques (N, n), without friction.

    Raises:
        InvalidArgumentError: fewer than two samples, or times that do not increase.
    """
    (q, v, tau), _ = require_states(dynamics.joints, q=q, v=v, tau=tau)
    times = as_numbers('t', t)
    if len(q) < 2:
        raise InvalidArgumentError(f'q must be at least two states of shape (N, n), got {len(q)}')
    if times.shape != (len(q),) or not np.isfinite(times).all():
        raise InvalidArgumentError(
            f't must be {len(q)} finite times in s, one per state, got shape {times.shape}')
    if not (np.diff(times) > 0.0).all():
        first = int(np.argmin(np.diff(times) > 0.0))
        raise InvalidArgumentError(
            f't must increase, got {times[first]} s, then {times[first + 1]} s')
    power = (v * tau).sum(-1)
    energy = [float(dynamics.kinetic_energy(q[i], v[i])) + float(dynamics.potential_energy(q[i]))
              for i in (0, -1)]
    return EnergyBalance(
        supplied=float((0.5 * (power[1:] + power[:-1]) * np.diff(times)).sum()),
        gained=energy[1] - energy[0],
    )
