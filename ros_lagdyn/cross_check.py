# SPDX-License-Identifier: Apache-2.0
"""Compare two engines term by term. A check reports; the caller judges."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import Dynamics, Terms, require_states
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.term_scales import TermScales, relative

HUGE = 1e300  # what a difference is multiplied with where there can be none


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Largest relative difference of each term, unitless; infinite where one is not a number."""

    mass_matrix: float
    coriolis: float
    gravity: float
    torque: float

    @property
    def worst(self) -> float:
        """The largest of them."""
        return max(self.mass_matrix, self.coriolis, self.gravity, self.torque)


class CrossCheck:
    """Two engines of one arm, ready to be compared again and again."""

    def __init__(self, first: Dynamics, second: Dynamics) -> None:
        """Take two engines with the same joints in the same order.

        Raises:
            InvalidArgumentError: their joints differ. (An arm seen in other coordinates has other
                names; there, only their number must be the same.)
        """
        by_name = first.in_joint_coordinates and second.in_joint_coordinates
        if len(first.joints) != len(second.joints) or (by_name and first.joints != second.joints):
            raise InvalidArgumentError(
                f'engines of one arm have the same joints, got {", ".join(first.joints)} and '
                + ', '.join(second.joints))
        self.first = first
        self.second = second
        self._scales = TermScales(first)
        # For one state: scales turned over, where nothing can be, any difference is too much.
        self._inverse_S = _turned_over(self._scales.S)
        self._inverse_G = _turned_over(self._scales.G)

    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Disagreement:
        """Return the worst disagreement at one state (n,), or over a batch (N, n)."""
        (q, v, a), _ = require_states(self.first.joints, q=q, v=v, a=a)
        one, two, scales = self.first.all_terms(q, v), self.second.all_terms(q, v), self._scales
        tau = self.first.inverse_dynamics(q, v, a) - self.second.inverse_dynamics(q, v, a)
        return Disagreement(
            mass_matrix=relative(one.mass_matrix - two.mass_matrix, scales.mass_matrix()),
            coriolis=relative(
                one.coriolis_matrix - two.coriolis_matrix, scales.coriolis_matrix(v)),
            gravity=relative(one.gravity - two.gravity, scales.gravity()),
            torque=relative(tau, scales.torque(v, a)),
        )

    def at(self, v: Array, torque_v: Array, a: Array, first: tuple[Terms, Array],
           second: tuple[Terms, Array]) -> Disagreement:
        """Compare what both engines said at one state: quicker than a call.

        Args:
            v: velocities (n,) of the terms.
            torque_v: velocities (n,) of the torque, which may be asked for another state.
            a: accelerations (n,) of the torque.
            first: terms and torque (n,) of the first engine.
            second: terms and torque (n,) of the second engine.
        """
        (M, C, g), tau = first
        (M_2, C_2, g_2), tau_2 = second
        weights = self._scales.rate_weights
        rate = float(abs(v) @ weights)
        coriolis = float((abs(C - C_2) * self._inverse_S).max())
        speeds = abs(torque_v)
        torque_scale = (abs(a) + float(speeds @ weights) * speeds) @ self._scales.S
        torque_scale += self._scales.G
        return Disagreement(
            mass_matrix=_or_infinite(float((abs(M - M_2) * self._inverse_S).max())),
            coriolis=_or_infinite(coriolis / rate if rate > 0.0 else coriolis * HUGE),
            gravity=_or_infinite(float((abs(g - g_2) * self._inverse_G).max())),
            torque=_or_infinite(float((abs(tau - tau_2) * _turned_over(torque_scale)).max())),
        )


def _turned_over(scale: Array) -> Array:
    return 1.0 / np.maximum(scale, 1.0 / HUGE)


def _or_infinite(number: float) -> float:
    return number if number < inf else inf  # a NaN is not less


def cross_check(first: Dynamics, second: Dynamics, q: ArrayLike, v: ArrayLike,
                a: ArrayLike) -> Disagreement:
    """Return how far two engines of one arm disagree at one state (n,) or a batch (N, n).

    Differences are relative to how large each entry can be for this arm (term_scales.py), so
    they stay meaningful where a term vanishes.
    """
    return CrossCheck(first, second)(q, v, a)
