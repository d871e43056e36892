# SPDX-License-Identifier: Apache-2.0
"""An oracle from elsewhere: MuJoCo loads the same URDFs and finds the same dynamics.

MuJoCo has a parser and algorithms of its own, and was written for another purpose: it diagonalises
each inertia tensor, and wants every moving body to have mass. A massless link gets the least one
that it takes (2e-15 kg), which changes nothing in double precision. So the pendulum, whose first
link is massless and whose bob is a point, can be loaded too, and the carriers of parallelograms.

MuJoCo makes mimic tags into soft constraints. They are switched off here, and the full tree is
projected by the multipliers as the URDF's text has them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from random_arms import RANDOM_ARMS, random_tree, two_link
from shipped import ENGINES, GRAVITIES, SEED, SHIPPED, load, states_within_limits, text_of

from ros_lagdyn.dynamics import Dynamics, load_dynamics

mujoco = pytest.importorskip('mujoco')

LEAST = 2e-15  # [kg] and [kg m^2], just above mjMINVAL
# MuJoCo turns quaternions, tensors and placements into each other at loading: some hundred
# rounded operations, each relative to the largest entry.
AGREEMENT = 1000 * np.finfo(float).eps
N_STATES = 50
OPEN_CHAINS = ('two_link', 'spatial_3r', 'cartesian', 'skew_cartesian', 'prismatic_revolute',
               'spherical_pendulum')


class Oracle:
    """An arm in MuJoCo, in the independent joints of its URDF."""

    def __init__(self, text: str, gravity) -> None:
        robot = ElementTree.fromstring(text)
        for link in robot.iter('link'):
            # MuJoCo would guess the mass of a link without <inertial> from its shapes.
            for shape in link.findall('visual') + link.findall('collision'):
                link.remove(shape)
        options = ElementTree.SubElement(robot, 'mujoco')
        ElementTree.SubElement(options, 'compiler', {
            'boundmass': str(LEAST), 'boundinertia': str(LEAST), 'balanceinertia': 'false',
            'inertiafromgeom': 'false', 'fusestatic': 'false'})
        self.model = mujoco.MjModel.from_xml_string(
            ElementTree.tostring(robot, encoding='unicode'))
        self.model.opt.gravity[:] = gravity
        # Damping and friction are no part of M, C and g; limits and mimic tags are constraints.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        self.model.dof_damping[:] = 0.0
        self.model.dof_frictionloss[:] = 0.0
        self.data = mujoco.MjData(self.model)
        self.names = [self.model.joint(index).name for index in range(self.model.njnt)]
        self._mimics = {
            joint.attrib['name']: joint.find('mimic').attrib for joint in robot.iter('joint')
            if joint.find('mimic') is not None}

    def _follow(self, name: str) -> tuple[str, float, float]:
        """Return independent joint, multiplier and offset that a joint follows."""
        if name not in self._mimics:
            return name, 1.0, 0.0
        mimic = self._mimics[name]
        leader, factor, constant = self._follow(mimic['joint'])
        multiplier = float(mimic.get('multiplier', 1.0))
        offset = float(mimic.get('offset', 0.0))
        return leader, multiplier * factor, multiplier * constant + offset

    def project(self, joints: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return P and offset of q_tree = P q + offset, rows in MuJoCo's order."""
        P, offset = np.zeros((len(self.names), len(joints))), np.zeros(len(self.names))
        for row, name in enumerate(self.names):
            leader, P_row, offset[row] = self._follow(name)
            P[row, joints.index(leader)] = P_row
        return P, offset

    def terms(self, joints: tuple[str, ...], q, v, a) -> tuple[np.ndarray, ...]:
        """Return M, bias = C v + g, and inverse dynamics at one state."""
        P, offset = self.project(joints)
        model, data = self.model, self.data
        # Only hinges and slides: position i, velocity i and joint i are the same.
        data.qpos[:] = P @ q + offset
        data.qvel[:] = P @ v
        mujoco.mj_forward(model, data)
        bias = P.T @ data.qfrc_bias
        M = np.empty((len(self.names), len(self.names)))
        for column, unit in enumerate(np.eye(len(self.names))):
            product = np.empty(len(self.names))
            mujoco.mj_mulM(model, data, product, unit)
            M[:, column] = product
        data.qacc[:] = P @ a
        mujoco.mj_inverse(model, data)
        return P.T @ M @ P, bias, P.T @ data.qfrc_inverse


def assert_agrees(dynamics: Dynamics, text: str, count: int, seed: int = SEED) -> None:
    """Compare M, bias and inverse dynamics at seeded states."""
    oracle = Oracle(text, dynamics.gravity_vector)
    q, v, a = states_within_limits(dynamics, count, seed)
    M, tau = dynamics.mass_matrix(q), dynamics.inverse_dynamics(q, v, a)
    bias = dynamics.inverse_dynamics(q, v, np.zeros_like(a))
    # What the parts of a torque can add up to, where they cancel: the sum of their sizes.
    s = np.sqrt(np.diagonal(M, axis1=1, axis2=2).max(axis=0))
    torque = abs(tau).max(axis=0) + abs(bias).max(axis=0) + np.outer(s, s) @ abs(a).max(axis=0)
    # The least inertia that MuJoCo gives to points and massless frames, at most 3 m from an axis.
    P, _ = oracle.project(dynamics.joints)
    added = 10 * LEAST * oracle.model.nbody * max(1.0, float((abs(P) ** 2).sum()))
    for index in range(count):
        M_oracle, bias_oracle, tau_oracle = oracle.terms(
            dynamics.joints, q[index], v[index], a[index])
        motion = added * (abs(a[index]).sum() + v[index] @ v[index]
                          + np.linalg.norm(dynamics.gravity_vector))
        for actual, expected, scale, atol, term in (
                (M[index], M_oracle, np.outer(s, s), added, 'M'),
                (bias[index], bias_oracle, torque, motion, 'bias'),
                (tau[index], tau_oracle, torque, motion, 'inverse dynamics')):
            error = abs(actual - expected)
            assert np.all(error <= AGREEMENT * scale + atol), (
                f'{dynamics.engine} and MuJoCo differ in {term} of {dynamics.arm.name} by '
                f'{error.max():.3e}, scale {scale.max():.3e}')


@pytest.mark.parametrize('gravity', GRAVITIES.values(), ids=GRAVITIES)
@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('stem', OPEN_CHAINS)
def test_open_chains_agree_with_mujoco(stem, engine, gravity):
    """M, C v + g and inverse dynamics of each shipped open chain are those of MuJoCo."""
    assert_agrees(load(stem, engine, gravity), text_of(stem), N_STATES)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('stem', ['two_link_remote', 'five_bar'])
def test_arms_with_mimic_joints_agree_with_mujocos_projected_tree(stem, engine):
    """The full tree in MuJoCo, projected by the mimic tags, is the same arm."""
    assert_agrees(load(stem, engine), text_of(stem), N_STATES)


@pytest.mark.parametrize('stem', SHIPPED)
def test_random_arms_agree_with_mujoco(stem):
    """Random links, axes, frames, welds and gravity: the formula is what MuJoCo finds."""
    for number in range(5):
        rng = np.random.default_rng([SEED, number, 1])
        text = RANDOM_ARMS[stem](rng)
        assert_agrees(load_dynamics(text, 'closed_form', rng.normal(size=3) * 6.0), text, 20)


def test_elbows_of_point_masses_agree_with_mujoco():
    """Zero inertia (document 004) is a plain special case."""
    for number in range(5):
        rng = np.random.default_rng([SEED, number, 2])
        text = two_link(rng, point_masses=True)
        assert_agrees(load_dynamics(text, 'closed_form', rng.normal(size=3) * 6.0), text, 20)


@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_random_trees_agree_with_mujoco(engine):
    """Any tree of hinges and slides, with mimic joints, is the same in MuJoCo."""
    for joints in range(1, 8):
        rng = np.random.default_rng([SEED, joints, 3])
        text = random_tree(rng, joints)
        assert_agrees(load_dynamics(text, engine, rng.normal(size=3) * 6.0), text, 20)


def test_the_oracle_sees_a_gram():
    """The comparison is sharp: one gram more on link 2 is a difference."""
    text = text_of('two_link')
    heavier = text.replace('<mass value="2"/>', '<mass value="2.001"/>')
    assert heavier != text
    with pytest.raises(AssertionError, match='differ in M'):
        assert_agrees(load_dynamics(heavier, 'closed_form'), text, 1)
