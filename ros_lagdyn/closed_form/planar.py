# SPDX-License-Identifier: Apache-2.0
"""Mechanisms that move in a plane: all revolute axes parallel, loops closed by mimic joints.

The plane is seen from the tip of joint 1's axis, and turned so that "up", the direction against
gravity, is +y. So the heights of the documents (l sin q) hold however the arm is mounted.

The angle of body b grows by turn_rates . (q_1, q_2). The way from the base to a centre of mass is
a chain of segments; each turns with the body that carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros_lagdyn.arm import BASE
from ros_lagdyn.closed_form.geometry import Geometry
from ros_lagdyn.rigid_body import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanarBody:
    """One moving body, reduced to the plane."""

    index: int
    label: str
    mass: float  # [kg]
    inertia: float  # [kg m^2], about the plane's normal through the centre of mass
    turn_rates: tuple[float, ...]  # d(angle of the body) / d q


class PlanarMechanism:
    """An arm whose revolute axes are all parallel."""

    def __init__(self, geometry: Geometry, stem: str) -> None:
        """Project the arm onto its plane; raises AssumptionError where an axis leaves it."""
        self.geometry = geometry
        self.arm = geometry.arm
        for index in range(1, len(self.arm.bodies)):
            geometry.require_parallel(stem, 0, index)
        normal = geometry.axis[0]
        up = geometry.up - (geometry.up @ normal) * normal
        self.g = float(np.linalg.norm(up))  # [m/s^2], in-plane part of gravity
        # Gravity along the normal does no work; any direction in the plane then serves as y.
        if self.g <= 1e-12 * float(np.linalg.norm(geometry.up)):
            self.g = 0.0
            up = np.cross(normal, np.eye(3)[np.argmin(abs(normal))])
        y = up / np.linalg.norm(up)
        self._axes = np.array([np.cross(y, normal), y])  # (2, 3): the plane's x and y
        sense = np.sign(geometry.axis @ normal)
        rates = self.arm.moved_by @ (sense[:, None] * self.arm.projection)
        self.bodies = [
            PlanarBody(
                index=index,
                label=geometry.link_label(index),
                mass=float(geometry.mass[index]),
                inertia=float(normal @ geometry.tensor[index] @ normal),
                turn_rates=tuple(float(rate) for rate in rates[index]),
            )
            for index in range(len(self.arm.bodies))
        ]

    def project(self, vector: Array) -> Array:
        """Return the plane's x and y of a vector in base axes; (3,) gives (2,)."""
        return self._axes @ vector

    def between_joints(self, first: PlanarBody, second: PlanarBody) -> Array:
        """Return the vector (2,) [m] from the joint of one body to that of another, at q = 0."""
        origin = self.geometry.origin
        return self.project(origin[second.index] - origin[first.index])

    def to_com(self, body: PlanarBody) -> Array:
        """Return the vector (2,) [m] from a body's joint to its centre of mass, at q = 0."""
        return self.project(self.geometry.com[body.index] - self.geometry.origin[body.index])

    def segments(self, body: PlanarBody) -> list[tuple[tuple[float, ...], Array]]:
        """Return the way from the base to a centre of mass as (turn rates, vector) pairs.

        Segments that turn together are added up. Rates (0, 0) are the part that stays fixed.
        """
        total: dict[tuple[float, ...], Array] = {}

        def add(rates: tuple[float, ...], vector: Array) -> None:
            total[rates] = total.get(rates, np.zeros(2)) + vector

        add(body.turn_rates, self.to_com(body))
        current = body
        while (parent := self.arm.bodies[current.index].parent) != BASE:
            carrier = self.bodies[parent]
            add(carrier.turn_rates, self.between_joints(carrier, current))
            current = carrier
        add(tuple(0.0 for _ in body.turn_rates), self.project(self.geometry.origin[current.index]))
        return list(total.items())
