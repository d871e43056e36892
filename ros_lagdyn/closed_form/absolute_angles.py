# SPDX-License-Identifier: Apache-2.0
"""Planar mechanisms of two motors in which every massive link keeps parallel to one motor.

Each centre of mass is then fixed + (a vector that turns with motor 1) + (one that turns with
motor 2). The remotely driven elbow and the five-bar parallelogram are both of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros_lagdyn.closed_form.geometry import EXACT_WITHIN, Geometry
from ros_lagdyn.closed_form.planar import PlanarMechanism
from ros_lagdyn.errors import AssumptionError
from ros_lagdyn.rigid_body import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ParallelLink:
    """A massive link and the way to its centre of mass at q = 0, in the plane's x and y."""

    label: str
    mass: float  # [kg]
    inertia: float  # [kg m^2]
    motor: int  # 1 or 2: the motor to which the link keeps parallel
    fixed: Array  # (2,) [m], the part of the way that does not turn
    on_1: Array  # (2,) [m], the part that turns with motor 1
    on_2: Array  # (2,) [m], the part that turns with motor 2


class AbsoluteAngles:
    """The massive links of such a mechanism, sorted by what they hang on."""

    def __init__(self, geometry: Geometry, stem: str) -> None:
        """Read the links; raises AssumptionError where one follows both motors at once."""
        planar = PlanarMechanism(geometry, stem)
        self.g = planar.g
        self.sign_2 = next(
            (float(np.sign(body.turn_rates[1])) for body in planar.bodies
             if body.turn_rates[0] == 0.0 and abs(body.turn_rates[1]) == 1.0), 1.0)
        with_1, with_2, fixed = (1.0, 0.0), (0.0, self.sign_2), (0.0, 0.0)
        zero = np.zeros(2)
        self.links: list[ParallelLink] = []
        for body in planar.bodies:
            if body.mass == 0.0:
                continue
            segments = dict(planar.segments(body))
            turning = {rates: vector for rates, vector in segments.items()
                       if np.linalg.norm(vector) > EXACT_WITHIN * geometry.size
                       or rates == body.turn_rates}
            for rates in turning:
                if rates not in (with_1, with_2, fixed) or body.turn_rates == fixed:
                    raise AssumptionError(
                        mechanism=stem, part=body.label,
                        assumption='links that turn as one of the two motors does, rates '
                                   f'{with_1} or {with_2}',
                        found=f'rates {rates if body.turn_rates != fixed else fixed}')
            self.links.append(ParallelLink(
                label=body.label,
                mass=body.mass,
                inertia=body.inertia,
                motor=1 if body.turn_rates == with_1 else 2,
                fixed=segments.get(fixed, zero),
                on_1=segments.get(with_1, zero),
                on_2=segments.get(with_2, zero),
            ))
        self._negligible = EXACT_WITHIN * geometry.size
        self._stem = stem
        self.upper_arm = self._only(motor=1, on_other=False)
        self.crank = self._only(motor=2, on_other=False)
        self.coupler = self._only(motor=1, on_other=True)
        self.forearm = self._only(motor=2, on_other=True)

    def _only(self, *, motor: int, on_other: bool) -> ParallelLink | None:
        found = [
            link for link in self.links if link.motor == motor
            and bool(np.linalg.norm(link.on_2 if motor == 1 else link.on_1) > self._negligible)
            is on_other]
        if len(found) > 1:
            place = f'at the tip of the link of motor {3 - motor}' if on_other else 'on the base'
            raise AssumptionError(
                mechanism=self._stem, part=found[1].label,
                assumption=f'at most one massive link {place} parallel to motor {motor}',
                found=f'{len(found)}: ' + ', '.join(link.label for link in found))
        return found[0] if found else None
