# SPDX-License-Identifier: Apache-2.0
"""Three derivations, one result: formula, Euler-Lagrange recipe and Pinocchio to 1e-12.

A relative difference needs a scale that stays meaningful where a term vanishes (gravity of an arm
that lies on its side, Coriolis terms of a Cartesian robot). The scales here come from the URDF
text and from the mass matrix alone:

    M_ij    s_i s_j, with s_i^2 the largest M_ii of the batch
    C_ij    s_i s_j times a rate: the largest turning rate, and sliding rate over the arm's size
    g_i     weight of the arm, times its size for a joint that turns
    U       weight times size
    tau     what the terms above can add up to
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
import pytest
from random_arms import (
    RANDOM_ARMS,
    prismatic_revolute,
    random_tree,
    spatial_3r,
    spherical_pendulum,
    two_link,
)
from shipped import ENGINES, GRAVITIES, SEED, SHIPPED, States, load, states_within_limits, text_of

from ros_lagdyn.dynamics import Dynamics, load_dynamics

AGREEMENT = 1e-12  # relative, what the package promises
EPS = np.finfo(float).eps
N_SHIPPED_STATES = 10_000
N_RANDOM_ARMS, N_RANDOM_STATES = 20, 500  # 10,000 states per mechanism
CHUNK = 1000  # states at a time, to keep the memory of the general engine small
N_TREES, N_TREE_STATES = 70, 20


@dataclass(frozen=True)
class Scales:
    """The natural size of each term of an arm over a batch of states."""

    mass_matrix: np.ndarray  # (n, n)
    coriolis_matrix: np.ndarray  # (n, n)
    gravity: np.ndarray  # (n,)
    inverse_dynamics: np.ndarray  # (n,)
    potential_energy: float
    kinetic_energy: float
    frame_jacobian: np.ndarray  # (6, n)


def scales(text: str, reference: Dynamics, states: States) -> Scales:
    """Return the scales of an arm, from its URDF text and the mass matrix of one engine."""
    robot = ElementTree.fromstring(text)

    def lengths(elements) -> list[float]:
        return [float(np.linalg.norm([float(x) for x in element.get('xyz', '0 0 0').split()]))
                for element in elements]

    size = sum(lengths(robot.findall('joint/origin'))) + max(
        lengths(robot.findall('link/inertial/origin')), default=0.0)
    turns = np.array([joint.turns for joint in reference.arm.independent_joints])
    q, v, a = states
    size += abs(q[:, ~turns]).sum(axis=1).max()
    weight = sum(float(mass.attrib['value']) for mass in robot.iter('mass')) * float(
        np.linalg.norm(reference.gravity_vector))
    s = np.sqrt(np.diagonal(reference.mass_matrix(q), axis1=1, axis2=2).max(axis=0))
    rate = abs(v[:, turns]).sum(axis=1).max() + abs(v[:, ~turns]).sum(axis=1).max() / size
    M = np.outer(s, s)
    C = rate * M
    g = weight * np.where(turns, size, 1.0)
    linear = np.where(turns, size, 1.0)
    return Scales(
        mass_matrix=M,
        coriolis_matrix=C,
        gravity=g,
        inverse_dynamics=M @ abs(a).max(axis=0) + C @ abs(v).max(axis=0) + g,
        potential_energy=weight * size,
        kinetic_energy=0.5 * float((s * abs(v).max(axis=0)).sum() ** 2),
        frame_jacobian=np.vstack([np.tile(linear, (3, 1)), np.ones((3, len(s)))]),
    )


def assert_agree(engines: Sequence[Dynamics], reference: Dynamics, text: str, states: States,
                 relative: float = AGREEMENT) -> None:
    """Compare every term of some engines with that of a reference over a batch of states."""
    scale = scales(text, reference, states)
    q, v, a = states
    terms = {
        'mass_matrix': (q,), 'coriolis_matrix': (q, v), 'gravity': (q,),
        'inverse_dynamics': (q, v, a), 'potential_energy': (q,), 'kinetic_energy': (q, v),
    }
    comparisons = [(term, args, getattr(scale, term)) for term, args in terms.items()]
    # A mimic joint moves a frame by its multiplier times as much.
    reach = scale.frame_jacobian * max(1.0, float(abs(reference.arm.projection).sum()))
    comparisons += [('frame_jacobian', (q[:20], frame), reach)
                    for frame in reference.arm.frames]
    for term, args, size in comparisons:
        expected = getattr(reference, term)(*args)
        for engine in engines:
            assert engine.joints == reference.joints
            error = abs(getattr(engine, term)(*args) - expected)
            # Without gravity its scale is 0, and so must its terms be.
            assert np.all(error <= relative * size), (
                f'{engine.engine} and {reference.engine} differ in {term} of '
                f'{reference.arm.name} by {error.max():.3e}, scale {np.max(size):.3e}')


def chunks(states: States) -> list[States]:
    """Return the states in batches of at most CHUNK."""
    return [States(*(part[start:start + CHUNK] for part in states))
            for start in range(0, len(states.q), CHUNK)]


def random_states(rng: np.random.Generator, size: int, count: int) -> States:
    """Return random states of an arm without limits."""
    return States(
        q=rng.uniform(-np.pi, np.pi, (count, size)),
        v=rng.uniform(-4.0, 4.0, (count, size)),
        a=rng.uniform(-10.0, 10.0, (count, size)),
    )


def random_gravity(rng: np.random.Generator) -> np.ndarray:
    """Return gravity of random direction, sometimes that of Earth, sometimes none."""
    choice = rng.random()
    if choice < 0.2:
        return np.array([0.0, 0.0, -9.81])
    return np.zeros(3) if choice < 0.3 else rng.normal(size=3) * 6.0


def all_engines(text: str, gravity) -> list[Dynamics]:
    """Return closed form, Lagrangian and Pinocchio, in this order."""
    return [load_dynamics(text, engine, gravity) for engine in ENGINES]


# -- the shipped arms ------------------------------------------------------------------------


def test_shipped_arms_agree_on_ten_thousand_states(stem):
    """Within its limits each shipped arm is the same in every engine."""
    *engines, reference = (load(stem, engine) for engine in ENGINES)
    for chunk in chunks(states_within_limits(reference, N_SHIPPED_STATES)):
        assert_agree(engines, reference, text_of(stem), chunk)


@pytest.mark.parametrize('gravity', GRAVITIES.values(), ids=GRAVITIES)
def test_shipped_arms_agree_for_gravity_of_any_direction(stem, gravity):
    """Gravity may point anywhere: the arm may hang on a wall, or fly."""
    *engines, reference = (load(stem, engine, gravity) for engine in ENGINES)
    assert_agree(engines, reference, text_of(stem), states_within_limits(reference, 100))


def test_gravity_along_the_axes_of_a_planar_arm_does_nothing():
    """An arm that lies on its side carries no weight, exactly so in the formula."""
    for stem in ('two_link', 'two_link_remote', 'five_bar'):
        arm = load(stem, 'closed_form', (0.0, 9.81, 0.0))
        np.testing.assert_array_equal(arm.gravity(np.ones((4, 2))), np.zeros((4, 2)))


# -- random arms -----------------------------------------------------------------------------


@pytest.mark.parametrize('stem', SHIPPED)
def test_random_arms_agree_in_all_engines(stem):
    """Links, axes, frames, welds, mimic offsets and gravity are random; 10,000 states."""
    for number in range(N_RANDOM_ARMS):
        rng = np.random.default_rng([SEED, number, SHIPPED.index(stem)])
        text = RANDOM_ARMS[stem](rng)
        closed_form, lagrangian, pinocchio = all_engines(text, random_gravity(rng))
        assert closed_form.mechanism == stem
        states = random_states(rng, len(pinocchio.joints), N_RANDOM_STATES)
        assert_agree([closed_form, lagrangian], pinocchio, text, states)


SPECIAL_ARMS = {
    'elbow of point masses': lambda rng: two_link(rng, point_masses=True),
    'elbow on one axis': lambda rng: two_link(rng, coaxial=True),
    'elbow with a balanced forearm': lambda rng: two_link(rng, com_2_on_axis=True),
    'elbow on one axis, balanced': lambda rng: two_link(rng, coaxial=True, com_2_on_axis=True),
    'slide along the axis': lambda rng: prismatic_revolute(rng, along=True),
    'spatial elbow with a balanced forearm': lambda rng: spatial_3r(rng, com_3_on_axis=True),
    'spatial elbow with a massless upper arm': lambda rng: spatial_3r(rng, massless_2=True),
    'pendulum of a point mass': lambda rng: spherical_pendulum(rng, slender=False),
    'pendulum of a slender rod': lambda rng: spherical_pendulum(rng, slender=True),
}


@pytest.mark.parametrize('build', SPECIAL_ARMS.values(), ids=SPECIAL_ARMS)
def test_special_cases_agree_in_all_engines(build):
    """Where a length or an inertia of a formula is 0, its angle is free, but not its torques."""
    for number in range(8):
        rng = np.random.default_rng([SEED, number])
        text = build(rng)
        *engines, pinocchio = all_engines(text, random_gravity(rng))
        assert_agree(engines, pinocchio, text, random_states(rng, len(pinocchio.joints), 50))


def test_right_angles_rounded_to_1_5708_are_good_to_their_rounding():
    """1.5708 tilts an axis by 3.7e-6 rad: in a vertical plane the error is the square of it."""
    text = text_of('two_link')
    upright = '<origin xyz="0.5 0 0" rpy="0 0 0"/>\n    <axis xyz="0 -1 0"/>'
    assert upright in text
    text = text.replace(
        upright, '<origin xyz="0.5 0 0" rpy="1.5708 0 0"/>\n    <axis xyz="0 0 1"/>').replace(
        '<origin xyz="0.168 0 0" rpy="0 0 0"/>', '<origin xyz="0.168 0 0" rpy="-1.5708 0 0"/>')
    closed_form, lagrangian, pinocchio = all_engines(text, GRAVITIES['earth'])
    assert closed_form.mechanism == 'two_link'
    states = states_within_limits(pinocchio, 100)
    tilt = 1.5708 - np.pi / 2
    assert_agree([closed_form], pinocchio, text, states, relative=2 * tilt**2)
    assert_agree([lagrangian], pinocchio, text, states)


# -- any tree --------------------------------------------------------------------------------


@pytest.mark.parametrize('joints', range(1, 8))
def test_random_trees_agree(joints):
    """Branches, slides, welds, mimic joints of mimic joints: what no formula covers."""
    for number in range(N_TREES // 7):
        rng = np.random.default_rng([SEED, joints, number])
        text = random_tree(rng, joints)
        gravity = random_gravity(rng)
        lagrangian, pinocchio = (
            load_dynamics(text, engine, gravity) for engine in ('lagrangian', 'pinocchio'))
        states = random_states(rng, len(lagrangian.joints), N_TREE_STATES)
        assert_agree([lagrangian], pinocchio, text, states)


def test_mimic_joints_agree_with_pinocchios_own():
    """Pinocchio's mimic model has the mass matrix and torques that the projection P gives."""
    compared = 0
    for number in range(20):
        rng = np.random.default_rng([SEED, number])
        # No continuous joints: their (cos, sin) cannot be multiplied.
        text = text_of('two_link_remote') if number == 0 else random_tree(
            rng, int(rng.integers(2, 6)), kinds=('revolute', 'prismatic'),
            mimic_ancestors_only=True)
        model = pin.buildModelFromXML(text, mimic=True)
        arm = load_dynamics(text, 'pinocchio')
        if not arm.arm.has_mimic:
            continue
        compared += 1
        order = [model.joints[model.getJointId(name)].idx_v for name in arm.joints]
        q, v, a = random_states(rng, len(arm.joints), N_TREE_STATES)
        M, tau = arm.mass_matrix(q), arm.inverse_dynamics(q, v, a)
        scale = scales(text, arm, States(q, v, a))
        for index in range(N_TREE_STATES):
            state = [np.empty(model.nv) for _ in range(3)]
            for vector, values in zip(state, (q, v, a), strict=True):
                vector[order] = values[index]
            data = model.createData()  # crba adds to what a call before left in a used one
            crba = np.triu(pin.crba(model, data, state[0]))
            crba = (crba + np.triu(crba, 1).T)[np.ix_(order, order)]
            assert np.all(abs(crba - M[index]) <= AGREEMENT * scale.mass_matrix)
            rnea = pin.rnea(model, data, *state)[order]
            assert np.all(abs(rnea - tau[index]) <= AGREEMENT * scale.inverse_dynamics)
    assert compared >= 5


# -- one state and many ----------------------------------------------------------------------


def test_one_state_is_the_same_as_in_a_batch(dynamics, states):
    """A state alone gives the numbers it gives in a batch, up to the order of additions."""
    q, v, a = states
    scale = scales(text_of(dynamics.arm.name), dynamics, states)
    calls = {
        'mass_matrix': (q,), 'coriolis_matrix': (q, v), 'gravity': (q,),
        'inverse_dynamics': (q, v, a), 'potential_energy': (q,), 'kinetic_energy': (q, v),
    }
    for name, args in calls.items():
        batch = getattr(dynamics, name)(*args)
        for index in range(len(q)):
            single = getattr(dynamics, name)(*(arg[index] for arg in args))
            np.testing.assert_allclose(
                single, batch[index], rtol=0.0, atol=16 * EPS * np.max(getattr(scale, name)))


def test_all_terms_are_the_terms(dynamics, states):
    """all_terms gives what the three calls give, alone and in a batch."""
    q, v, _ = states
    for args in ((q, v), (q[0], v[0])):
        terms = dynamics.all_terms(*args)
        np.testing.assert_array_equal(terms.mass_matrix, dynamics.mass_matrix(args[0]))
        np.testing.assert_array_equal(terms.coriolis_matrix, dynamics.coriolis_matrix(*args))
        np.testing.assert_array_equal(terms.gravity, dynamics.gravity(args[0]))


def test_a_reversed_joint_reverses_its_row_and_column(engine):
    """Turning an axis around changes signs and nothing else."""
    text = text_of('two_link')
    head, joint_2 = text.split('<joint name="joint2"')
    reversed_text = head + '<joint name="joint2"' + joint_2.replace(
        '<axis xyz="0 -1 0"/>', '<axis xyz="0 1 0"/>')
    arm, reversed_arm = load('two_link', engine), load_dynamics(reversed_text, engine)
    states = states_within_limits(arm, 20)
    sign = np.array([1.0, -1.0])
    scale = scales(text, arm, states)
    for name, args in (('mass_matrix', 1), ('coriolis_matrix', 2), ('gravity', 1),
                       ('inverse_dynamics', 3)):
        expected = getattr(arm, name)(*states[:args])
        signs = np.outer(sign, sign) if expected.ndim == 3 else sign
        actual = getattr(reversed_arm, name)(*(part * sign for part in states[:args]))
        np.testing.assert_allclose(signs * actual, expected, rtol=0.0,
                                   atol=AGREEMENT * np.max(getattr(scale, name)))
