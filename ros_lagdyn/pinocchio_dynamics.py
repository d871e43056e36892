# SPDX-License-Identifier: Apache-2.0
"""The same numbers from Pinocchio: its own URDF parser, its recursive algorithms.

Pinocchio builds the full tree (its own mimic support returns a wrong Coriolis matrix and refuses
several algorithms), and the constant matrix P of the mimic tags projects it:
M = P' M_tree P, C = P' C_tree P, g = P' g_tree.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pinocchio
from numpy.typing import ArrayLike

from ros_lagdyn.arm import Arm, Body
from ros_lagdyn.dynamics import EARTH_GRAVITY, Dynamics, Terms
from ros_lagdyn.errors import UrdfError
from ros_lagdyn.rigid_body import Array

CRBA_FILLS_BOTH_TRIANGLES = int(pinocchio.__version__.split('.')[0]) >= 4


class PinocchioDynamics(Dynamics):
    """Wraps one Pinocchio model and its data."""

    engine = 'pinocchio'

    def __init__(self, arm: Arm, urdf_text: str, gravity: ArrayLike = EARTH_GRAVITY) -> None:
        """Take the arm for names and mimic tags, and the URDF text for everything else."""
        super().__init__(arm, gravity)
        try:
            self._model = pinocchio.buildModelFromXML(urdf_text)
        except (ValueError, RuntimeError) as error:
            raise UrdfError(f'URDF: Pinocchio refuses it: {str(error).strip()}') from None
        self._model.gravity.linear = self._gravity_vector
        self._data = self._model.createData()
        # Rows of P and offset in Pinocchio's order of velocities. A continuous joint has two
        # position numbers, cos and sin, so positions need a map of their own.
        order = np.empty(self._model.nv, dtype=int)
        self._plain: list[tuple[int, int]] = []
        self._continuous: list[tuple[int, int]] = []
        for row, body in enumerate(arm.bodies):
            joint_id = self._model.getJointId(body.joint.name)
            if not 0 < joint_id < self._model.njoints:
                raise UrdfError(f'joint "{body.joint.name}": Pinocchio does not know it by this '
                                'name, choose another one')
            self._require_same_mass(body, self._model.inertias[joint_id].mass)
            joint = self._model.joints[joint_id]
            order[joint.idx_v] = row
            places = self._plain if joint.nq == 1 else self._continuous
            places.append((joint.idx_q, joint.idx_v))
        self._P = arm.projection[order]
        self._offset = arm.offset[order]
        self._positions = np.zeros(self._model.nq)
        self._only_plain = not self._continuous
        self._is_plain_chain = self._only_plain and np.array_equal(
            self._P, np.eye(self._model.nv)) and not self._offset.any()

    @staticmethod
    def _require_same_mass(body: Body, mass: float) -> None:
        # urdfdom, which Pinocchio reads with, drops an <inertial> that it does not like.
        if abs(mass - body.inertia.mass) > 1e-9 * body.inertia.mass:
            raise UrdfError(
                f'link "{body.name}": Pinocchio reads a mass of {mass:g} kg where urdf_parser_py '
                f'reads {body.inertia.mass:g} kg, links fixed onto it included')

    def _tree(self, q: Array) -> Array:
        """Return Pinocchio's configuration vector for one state q of shape (n,)."""
        tree = self._P @ q + self._offset
        if self._only_plain:
            return tree
        for idx_q, idx_v in self._plain:
            self._positions[idx_q] = tree[idx_v]
        for idx_q, idx_v in self._continuous:
            self._positions[idx_q] = np.cos(tree[idx_v])
            self._positions[idx_q + 1] = np.sin(tree[idx_v])
        return self._positions

    # One state: without the batch's loops and copies, for those who ask a thousand times a second.

    def all_terms(self, q: Any, v: Any) -> Terms:
        """Return M, C and g at once: cheaper than three calls."""
        if not self._is_one_state(q, v):
            return super().all_terms(q, v)
        tree, rates = (q, v) if self._is_plain_chain else (self._tree(q), self._P @ v)
        model, data = self._model, self._data
        M = _whole(pinocchio.crba(model, data, tree))
        C = pinocchio.computeCoriolisMatrix(model, data, tree, rates)
        g = pinocchio.computeGeneralizedGravity(model, data, tree)
        if self._is_plain_chain:  # the arrays are views of Pinocchio's data
            return Terms(M.copy(), C.copy(), g.copy())
        P = self._P
        return Terms(P.T @ M @ P, P.T @ C @ P, P.T @ g)

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Array:
        """Return tau = M(q) a + C(q, v) v + g(q); shape (n,) or (N, n)."""
        if not self._is_one_state(q, v, a):
            return super().inverse_dynamics(q, v, a)
        if self._is_plain_chain:
            return pinocchio.rnea(self._model, self._data, q, v, a).copy()
        P = self._P
        return P.T @ pinocchio.rnea(self._model, self._data, self._tree(q), P @ v, P @ a)

    def _is_one_state(self, *vectors: Any) -> bool:
        """Say whether all are sound vectors (n,), which need no further look."""
        shape = (len(self.joints),)
        return all(type(x) is np.ndarray and x.shape == shape and x.dtype == float
                   and all(map(isfinite, x.tolist())) for x in vectors)

    def _mass_matrix(self, q: Array) -> Array:
        result = np.empty((len(q), len(self.joints), len(self.joints)))
        for index, state in enumerate(q):
            M = _whole(pinocchio.crba(self._model, self._data, self._tree(state)))
            result[index] = self._P.T @ M @ self._P
        return result

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        result = np.empty((len(q), len(self.joints), len(self.joints)))
        for index, (state, rate) in enumerate(zip(q, v, strict=True)):
            C = pinocchio.computeCoriolisMatrix(
                self._model, self._data, self._tree(state), self._P @ rate)
            result[index] = self._P.T @ C @ self._P
        return result

    def _gravity(self, q: Array) -> Array:
        result = np.empty(q.shape)
        for index, state in enumerate(q):
            result[index] = self._P.T @ pinocchio.computeGeneralizedGravity(
                self._model, self._data, self._tree(state))
        return result

    def _potential_energy(self, q: Array) -> Array:
        return np.array([pinocchio.computePotentialEnergy(
            self._model, self._data, self._tree(state)) for state in q])

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        result = np.empty(q.shape)
        for index, (state, rate, rate_of_rate) in enumerate(zip(q, v, a, strict=True)):
            result[index] = self._P.T @ pinocchio.rnea(
                self._model, self._data, self._tree(state), self._P @ rate,
                self._P @ rate_of_rate)
        return result

    def _frame_jacobian(self, q: Array, frame: str) -> Array:
        self.arm.frame(frame)  # an unknown link is the same error in every engine
        frame_id = self._model.getFrameId(frame, pinocchio.FrameType.BODY)
        result = np.empty((len(q), 6, len(self.joints)))
        for index, state in enumerate(q):
            result[index] = pinocchio.computeFrameJacobian(
                self._model, self._data, self._tree(state), frame_id,
                pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED).reshape(6, -1) @ self._P
        return result


def _whole(M: Array) -> Array:
    """Return a mass matrix of crba with both triangles: releases before 4 fill the upper only."""
    return M if CRBA_FILLS_BOTH_TRIANGLES else np.triu(M) + np.triu(M, 1).T
