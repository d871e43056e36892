# SPDX-License-Identifier: Apache-2.0
r"""What acts on an arm besides gravity (001, generalized forces).

.. math:: D a + C v + g = B \tau - F_v v - F_s\,\mathrm{sgn}(v) + J^T F

B maps actuator torques to joint torques, F_v is viscous damping, F_s Coulomb friction, F a wrench
that the world exerts at a frame of the arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.dynamics import Dynamics, as_numbers, in_one_line, require_states
from ros_lagdyn.errors import InvalidArgumentError, LagdynError
from ros_lagdyn.rigid_body import Array, apply


@dataclass(frozen=True, kw_only=True)
class Wrench:
    """A force and a moment that the world exerts on the arm, at the origin of a link's frame."""

    frame: str  # name of the link
    force: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [N]
    torque: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [Nm]
    axes: str = 'base'  # components along the axes of the root link, or of the 'frame' itself

    def __post_init__(self) -> None:
        """Refuse what is not a wrench.

        Raises:
            InvalidArgumentError: a component is not a finite number, or axes are unknown.
        """
        for name in ('force', 'torque'):
            vector = as_numbers(name, getattr(self, name))
            if vector.shape != (3,) or not np.isfinite(vector).all():
                raise InvalidArgumentError(
                    f'{name} must be 3 finite numbers, got {in_one_line(getattr(self, name))}')
        if self.axes not in ('base', 'frame'):
            raise InvalidArgumentError(f'axes must be "base" or "frame", got "{self.axes}"')


class ForcedDynamics:
    """An arm with its actuators, its friction and what pushes it."""

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        actuation: ArrayLike | None = None,
        viscous: ArrayLike | None = None,
        coulomb: ArrayLike | None = None,
    ) -> None:
        """Take an arm of any engine.

        Args:
            dynamics: the arm.
            actuation: B, (n, actuators); None for one motor at each joint (identity).
            viscous: diagonal of F_v per joint, (n,) [Nm s/rad]; None for URDF's <dynamics
                damping>, mimic joints included.
            coulomb: diagonal of F_s per joint, (n,) [Nm]; None for URDF's <dynamics friction>.

        Raises:
            InvalidArgumentError: a shape is wrong, a number not finite or friction negative.
        """
        n = len(dynamics.joints)
        self.dynamics = dynamics
        B = np.eye(n) if actuation is None else as_numbers('actuation', actuation)
        if B.ndim != 2 or B.shape[0] != n or B.shape[1] < 1 or not np.isfinite(B).all():
            raise InvalidArgumentError(
                f'actuation must be a finite matrix with {n} rows, got shape {B.shape}')
        self.B = B
        # Friction of every tree joint and the map from independent rates to its own.
        arm = dynamics.arm
        self._friction_of_urdf = viscous is None or coulomb is None
        self._viscous = self._friction('viscous', viscous, [
            body.joint.damping for body in arm.bodies])
        self._coulomb = self._friction('coulomb', coulomb, [
            body.joint.friction for body in arm.bodies])

    def _friction(self, name: str, given: ArrayLike | None, from_urdf: list[float]) -> tuple[
            Array, Array]:
        """Return friction coefficients and the rates they act on, as a matrix of v."""
        if given is None:
            return np.array(from_urdf), self.dynamics.arm.projection
        n = len(self.dynamics.joints)
        values = as_numbers(name, given)
        if values.shape != (n,) or not np.isfinite(values).all() or (values < 0.0).any():
            raise InvalidArgumentError(
                f'{name} must be {n} numbers >= 0, one for each of the joints '
                f'{", ".join(self.dynamics.joints)}, got {in_one_line(given)}')
        return values, np.eye(n)

    def friction(self, v: ArrayLike) -> Array:
        """Return F_v v + F_s sgn(v), which points along v and resists it; (n,) or (N, n).

        Raises:
            LagdynError: friction is the URDF's, but the arm is seen in other coordinates.
        """
        (v,), batch = require_states(self.dynamics.joints, v=v)
        damping, damped = self._viscous
        friction, rubbed = self._coulomb
        if self._friction_of_urdf and not self.dynamics.in_joint_coordinates:
            raise LagdynError(
                'friction of the URDF acts on the joints, not on the coordinates '
                f'{", ".join(self.dynamics.joints)}: give viscous and coulomb for these')
        result = (damping * (v @ damped.T)) @ damped + (friction * np.sign(v @ rubbed.T)) @ rubbed
        return result if batch else result[0]

    def external(self, q: ArrayLike, wrenches: Wrench | Sequence[Wrench]) -> Array:
        """Return J'F, the joint torques of one or more wrenches; (n,) or (N, n)."""
        if isinstance(wrenches, Wrench):
            wrenches = (wrenches,)
        (q,), batch = require_states(self.dynamics.joints, q=q)
        result = np.zeros(q.shape)
        for wrench in wrenches:
            force = np.array([wrench.force, wrench.torque], dtype=float)  # (2, 3)
            if wrench.axes == 'frame':
                R = self.dynamics.frame_rotation(q, wrench.frame)
                F = (force @ np.swapaxes(R, 1, 2)).reshape(-1, 6)
            else:
                F = np.broadcast_to(force.reshape(6), (len(q), 6))
            J = self.dynamics.frame_jacobian(q, wrench.frame)
            result += apply(np.swapaxes(J, 1, 2), F)
        return result if batch else result[0]

    def joint_torques(self, actuator_torques: ArrayLike) -> Array:
        """Return B tau; (actuators,) gives (n,), a batch likewise."""
        names = tuple(f'actuator {index + 1}' for index in range(self.B.shape[1]))
        (tau,), batch = require_states(names, actuator_torques=actuator_torques)
        return (tau @ self.B.T) if batch else (tau @ self.B.T)[0]

    def actuator_torques(self, joint_torques: ArrayLike) -> Array:
        """Return tau with B tau = joint_torques, the smallest one where several do it.

        Raises:
            LagdynError: the actuators cannot produce these joint torques.
        """
        (Q,), batch = require_states(self.dynamics.joints, joint_torques=joint_torques)
        tau = Q @ np.linalg.pinv(self.B).T
        missing = abs(tau @ self.B.T - Q)
        short = missing > 1e-9 * abs(Q).max(axis=1, keepdims=True)
        if short.any():
            state, joint = (int(index) for index in np.argwhere(short)[0])
            raise LagdynError(
                f'the {self.B.shape[1]} actuators cannot produce the torques'
                + (f' of state {state}' if batch else '') + f': {missing[state, joint]:.6g} are '
                f'missing at joint "{self.dynamics.joints[joint]}"')
        return tau if batch else tau[0]

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike,
                         wrenches: Wrench | Sequence[Wrench] = ()) -> Array:
        """Return the actuator torques tau that give the acceleration a; (actuators,) or (N, .).

        Raises:
            LagdynError: the actuators cannot produce it.
        """
        Q = self.dynamics.inverse_dynamics(q, v, a) + self.friction(v) - self.external(q, wrenches)
        return self.actuator_torques(Q)

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike,
                         wrenches: Wrench | Sequence[Wrench] = ()) -> Array:
        """Return the acceleration under actuator torques tau, friction and wrenches.

        Raises:
            SingularMassMatrixError: M(q) has lost rank.
        """
        Q = self.joint_torques(tau) - self.friction(v) + self.external(q, wrenches)
        return self.dynamics.forward_dynamics(q, v, Q)
