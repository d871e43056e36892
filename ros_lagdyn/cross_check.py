# SPDX-License-Identifier: Apache-2.0
"""Compare two engines term by term. A check reports; the caller judges."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import Dynamics, require_states
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.term_scales import TermScales, relative


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
        return float(max(astuple(self)))


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


def cross_check(first: Dynamics, second: Dynamics, q: ArrayLike, v: ArrayLike,
                a: ArrayLike) -> Disagreement:
    """Return how far two engines of one arm disagree at one state (n,) or a batch (N, n).

    Differences are relative to how large each entry can be for this arm (term_scales.py), so
    they stay meaningful where a term vanishes.
    """
    return CrossCheck(first, second)(q, v, a)
