# SPDX-License-Identifier: Apache-2.0
"""A mechanism is recognised in any disguise, and a broken assumption is named and measured."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from math import cos, sin

import numpy as np
import pytest
from random_arms import RANDOM_ARMS, ArmWriter, Mass, random_mass, random_tree
from shipped import GRAVITIES, SEED, SHIPPED, load, text_of

from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import AssumptionError, UnrecognisedMechanismError

X, Y, Z = np.eye(3)
ORIGIN = np.zeros(3)


def edited(stem: str, *changes: tuple[str, dict[str, str]]) -> str:
    """Return a shipped URDF with attributes changed; an element that is not there is added.

    Each change is a path such as 'joint2/axis' or 'link2/inertial/mass' and its new attributes.
    """
    robot = ElementTree.fromstring(text_of(stem))
    for path, attributes in changes:
        name, *tags = path.split('/')
        element = next(e for e in robot if e.get('name') == name and e.tag in ('link', 'joint'))
        for tag in tags:
            child = element.find(tag)
            element = ElementTree.SubElement(element, tag) if child is None else child
        element.attrib.update(attributes)
    return ElementTree.tostring(robot, encoding='unicode')


def inertial(link: str, mass: str) -> list[tuple[str, dict[str, str]]]:
    """Return the changes that give a massless link a small round body."""
    moments = dict.fromkeys(('ixx', 'iyy', 'izz'), '0.001') | dict.fromkeys(
        ('ixy', 'ixz', 'iyz'), '0')
    return [(f'{link}/inertial/mass', {'value': mass}), (f'{link}/inertial/inertia', moments)]


# -- disguises -------------------------------------------------------------------------------


def test_shipped_arms_are_recognised(stem):
    """Each shipped URDF is the mechanism that it is named after."""
    assert load(stem, 'closed_form').mechanism == stem


@pytest.mark.parametrize('stem', SHIPPED)
def test_random_disguises_are_recognised(stem):
    """Frames, axes, signs, welds, offsets and the order of elements do not matter."""
    for number in range(60):
        rng = np.random.default_rng([SEED, number, 4])
        arm = load_dynamics(RANDOM_ARMS[stem](rng), 'closed_form', rng.normal(size=3))
        assert arm.mechanism == stem, f'seed [{SEED}, {number}, 4]'


@pytest.mark.parametrize('gravity', GRAVITIES.values(), ids=GRAVITIES)
def test_recognition_does_not_depend_on_gravity(stem, gravity):
    """A mechanism is what it is, however it is mounted."""
    assert load(stem, 'closed_form', gravity).mechanism == stem


def test_point_masses_at_the_tips_are_an_elbow():
    """The elbow of document 004 is l_c = l and I = 0 in the formula of the general one."""
    rng = np.random.default_rng(SEED)
    arm = ArmWriter('two_link', rng)
    elbow, tip = 0.7 * X, 0.7 * X + 0.4 * Y
    arm.body('link1', on=arm.base, axis=Z, at=ORIGIN, mass=Mass(3.0, elbow, np.zeros((3, 3))))
    arm.body('link2', on='link1', axis=Z, at=elbow, mass=Mass(2.0, tip, np.zeros((3, 3))))
    formula = load_dynamics(arm.text()).formula
    exact = 64 * np.finfo(float).eps
    assert formula.stem == 'two_link'
    np.testing.assert_allclose(
        [formula.m_1, formula.l_1, formula.l_c1, formula.m_2, formula.l_c2],
        [3.0, 0.7, 0.7, 2.0, 0.4], rtol=exact)
    np.testing.assert_allclose([formula.h_1, formula.I_1, formula.I_2], 0.0, atol=exact)


def test_parameters_of_the_book_are_read_off_a_disguised_elbow():
    """Masses, lengths and inertias of the formula are those that the arm was designed with."""
    for number in range(20):
        rng = np.random.default_rng([SEED, number, 5])
        axis = np.array([2.0, -1.0, 2.0]) / 3.0
        along = np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
        across = np.cross(axis, along)
        shoulder = rng.uniform(-1.0, 1.0, size=3)
        elbow = shoulder + 0.6 * along + 0.2 * axis
        link_1 = random_mass(rng, shoulder + 0.25 * along + 0.1 * across - 0.3 * axis)
        link_2 = random_mass(rng, elbow + 0.3 * across + 0.4 * along)
        arm = ArmWriter('two_link', rng)
        arm.body('link1', on=arm.base, axis=axis, at=shoulder, mass=link_1)
        arm.body('link2', on='link1', axis=axis, at=elbow, mass=link_2)
        formula = load_dynamics(arm.text(), 'closed_form', (0.0, 0.0, -3.0)).formula
        # Rounding of positions of about 1 m, against lengths of 0.1 m.
        exact = 200 * np.finfo(float).eps
        np.testing.assert_allclose(
            [formula.m_1, formula.m_2, formula.l_1, formula.l_c1, abs(formula.h_1),
             formula.l_c2, formula.I_1, formula.I_2, formula.g],
            [link_1.mass, link_2.mass, 0.6, 0.25, 0.1, 0.5, axis @ link_1.tensor @ axis,
             axis @ link_2.tensor @ axis, 3.0 * np.sqrt(1.0 - axis[2] ** 2)], rtol=exact)


def test_right_angles_rounded_to_1_5708_are_accepted_for_the_elbow():
    """URDFs in the wild write pi/2 as 1.5708: an axis 3.7e-6 rad off still counts as parallel."""
    text = edited('two_link', ('joint2/origin', {'rpy': '1.5708 0 0'}),
                  ('joint2/axis', {'xyz': '0 0 1'}))
    assert load_dynamics(text).mechanism == 'two_link'
    # Both axes by the same rounded angle are exactly parallel.
    text = edited('two_link', ('joint1/origin', {'rpy': '1.5708 0 0'}),
                  ('joint1/axis', {'xyz': '0 0 1'}), ('joint2/axis', {'xyz': '0 0 1'}))
    assert load_dynamics(text).mechanism == 'two_link'


def test_a_rounded_right_angle_is_refused_where_it_enters_torques_directly():
    """The spatial elbow needs the digits of pi/2, and says so."""
    text = edited('spatial_3r', ('joint2/origin', {'rpy': '1.5708 0 0'}),
                  ('joint2/axis', {'xyz': '0 0 -1'}))
    with pytest.raises(AssumptionError, match=re.escape('1.5707963267948966')) as caught:
        load_dynamics(text)
    assert 'joint "joint2"' in str(caught.value)
    assert '3.67e-06 rad' in str(caught.value)


def test_slides_that_miss_the_right_angle_are_skew():
    """A Cartesian robot 0.01 rad off is a skew one, not an error."""
    text = edited('cartesian', ('joint2/axis', {'xyz': f'{sin(0.01)!r} 0 {cos(0.01)!r}'}))
    arm = load_dynamics(text)
    assert arm.mechanism == 'skew_cartesian'
    np.testing.assert_allclose(arm.formula.cos_alpha, sin(0.01), rtol=1e-13)


def test_joints_of_a_branching_document_may_come_in_any_order():
    """Which motor of the five-bar comes first in the file does not change what it is."""
    orders = set()
    for number in range(20):
        rng = np.random.default_rng([SEED, number, 6])
        arm = load_dynamics(RANDOM_ARMS['five_bar'](rng))
        assert arm.mechanism == 'five_bar'
        orders.add(arm.joints)
    assert orders == {('link1_joint', 'link2_joint'), ('link2_joint', 'link1_joint')}


# -- broken assumptions ----------------------------------------------------------------------

OFF = 0.01  # rad or m, by which each arm misses what its formula assumes
TILTED_Y = f'{sin(OFF)!r} {-cos(OFF)!r} 0'
BROKEN = {
    # name: (shipped arm, changes, part named, words of the assumption, number found)
    'two_link: axes not parallel': (
        'two_link', [('joint2/axis', {'xyz': TILTED_Y})],
        'joint "joint2"', ('parallel', 'joint "joint1"'), OFF),
    'two_link_remote: axis of the carrier not parallel': (
        'two_link_remote', [('joint1_level/axis', {'xyz': TILTED_Y})],
        'joint "joint1_level"', ('parallel', 'joint "joint1"'), OFF),
    'two_link_remote: carrier with mass': (
        'two_link_remote', inertial('carrier2', '0.3'),
        'link "carrier2"', ('turn as one of the two motors',), 0.0),
    'two_link_remote: carrier geared down': (
        'two_link_remote', [('joint1_level/mimic', {'multiplier': '-0.5'})],
        'link "link2"', ('turn as one of the two motors',), 0.5),
    'five_bar: axis not parallel': (
        'five_bar', [('joint3/axis', {'xyz': TILTED_Y})],
        'joint "joint3"', ('parallel', 'joint "joint1"'), OFF),
    'five_bar: motors on different axes': (
        'five_bar', [('joint2/origin', {'xyz': f'{OFF} 0 0.5'})],
        'link "link2"', ('loop that closes', 'same axis'), OFF),
    'five_bar: link 4 geared': (
        'five_bar', [('joint4/mimic', {'multiplier': '2'})],
        'link "link4"', ('turn as one of the two motors',), 2.0),
    'five_bar: carrier with mass': (
        'five_bar', inertial('carrier4', '0.3'),
        'link "carrier4"', ('turn as one of the two motors',), 0.0),
    'spatial_3r: hinge not across the column': (
        'spatial_3r', [('joint2/axis', {'xyz': f'0 {cos(OFF)!r} {sin(OFF)!r}'})],
        'joint "joint2"', ('right angles', 'joint "joint1"'), OFF),
    'spatial_3r: hinges not parallel': (
        'spatial_3r', [('joint3/axis', {'xyz': TILTED_Y})],
        'joint "joint3"', ('parallel', 'joint "joint2"'), OFF),
    'spatial_3r: hinge beside the column': (
        'spatial_3r', [('joint2/origin', {'xyz': f'{OFF} 0 0.25'})],
        'joint "joint2"', ('meets the column',), OFF),
    'spatial_3r: link 2 out of the plane': (
        'spatial_3r', [('link2/inertial/origin', {'xyz': f'0.24 {OFF} 0'})],
        'link "link2"', ('centre of mass', 'plane', 'joint "joint1"'), OFF),
    'spatial_3r: link 3 out of the plane': (
        'spatial_3r', [('link3/inertial/origin', {'xyz': f'0.142 {-OFF} 0'})],
        'link "link3"', ('centre of mass', 'plane', 'joint "joint1"'), -OFF),
    'spatial_3r: link 2 off its line': (
        'spatial_3r', [('link2/inertial/origin', {'xyz': f'0.24 0 {OFF}'})],
        'link "link2"', ('centre of mass', 'line'), OFF),
    'spatial_3r: product of inertia of link 2': (
        'spatial_3r', [('link2/inertial/inertia', {'ixy': '0.002'})],
        'link "link2"', ('principal axes', 'I_xy'), 0.002),
    'spatial_3r: product of inertia of link 3': (
        'spatial_3r', [('link3/inertial/inertia', {'ixz': '0.0005'})],
        'link "link3"', ('principal axes', 'I_yz'), 0.0005),
    'spherical_pendulum: axes not at right angles': (
        'spherical_pendulum', [('joint2/axis', {'xyz': f'0 {-cos(OFF)!r} {sin(OFF)!r}'})],
        'joint "joint2"', ('right angles', 'joint "joint1"'), OFF),
    'spherical_pendulum: axes that do not meet': (
        'spherical_pendulum', [('joint2/origin', {'xyz': f'{OFF} 0 0'})],
        'joint "joint2"', ('meets', 'joint "joint1"'), OFF),
    'spherical_pendulum: first link with mass': (
        'spherical_pendulum', inertial('link1', '0.3'),
        'link "link1"', ('massless first link',), 0.3),
    'spherical_pendulum: bob beside the plane': (
        'spherical_pendulum', [('link2/inertial/origin', {'xyz': f'0 {OFF} -0.6'})],
        'link "link2"', ('centre of mass', 'plane'), OFF),
    'spherical_pendulum: thick bob': (
        'spherical_pendulum', [('link2/inertial/inertia', {
            'ixx': '0.002', 'iyy': '0.002', 'izz': '0.002'})],
        'link "link2"', ('point mass or slender rod',), 0.002),
}


@pytest.mark.parametrize(('stem', 'changes', 'part', 'words', 'number'), BROKEN.values(),
                         ids=BROKEN)
def test_a_broken_assumption_is_named_and_measured(stem, changes, part, words, number):
    """The error names link or joint, the formula, the assumption and the number found."""
    with pytest.raises(AssumptionError) as caught:
        load_dynamics(edited(stem, *changes), 'closed_form')
    error, message = caught.value, str(caught.value)
    assert error.part == part
    assert error.mechanism == stem
    for expected in (part, f'"{stem}"', *words):
        assert expected in message, message
    found = [float(word) for word in re.findall(r'-?\d+(?:\.\d+)?(?:e-?\d+)?', error.found)]
    # Three digits are printed; the sign of a distance depends on how the plane is seen.
    assert any(abs(abs(value) - abs(number)) <= 0.005 * abs(number) for value in found), message
    assert '\n' not in message


@pytest.mark.parametrize(('stem', 'changes'), [row[:2] for row in BROKEN.values()], ids=BROKEN)
@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_the_general_engines_take_what_a_formula_refuses(stem, changes, engine):
    """What breaks a formula is still an arm."""
    arm = load_dynamics(edited(stem, *changes), engine)
    M = arm.mass_matrix(np.full(len(arm.joints), 0.7))
    assert np.all(np.linalg.eigvalsh(M) > 0.0)


@pytest.mark.parametrize('row', [name for name in BROKEN if 'mass' not in name
                                 and 'geared' not in name])
def test_a_deviation_of_rounding_is_no_error(row):
    """The same edits, but 1e-14 in size as after some arithmetic, are accepted."""
    stem, changes, *_ = BROKEN[row]
    arm = ElementTree.fromstring(text_of(stem))
    broken = ElementTree.fromstring(edited(stem, *changes))
    share = 1e-12  # of the change
    for element, other in zip(arm.iter(), broken.iter(), strict=True):
        for key, value in element.attrib.items():
            if value != other.attrib[key]:
                mixed = [float(x) + share * (float(y) - float(x)) for x, y in zip(
                    value.split(), other.attrib[key].split(), strict=True)]
                element.attrib[key] = ' '.join(repr(x) for x in mixed)
    assert load_dynamics(ElementTree.tostring(arm, encoding='unicode')).mechanism == stem


def rod(along: np.ndarray, pivot_to_com: float) -> str:
    """Return a pendulum on the axes z and y; its rod points along a unit vector."""
    arm = ArmWriter('pendulum', np.random.default_rng(SEED))
    arm.body('fork', on=arm.base, axis=Z, at=ORIGIN, mass=None)
    arm.body('rod', on='fork', axis=Y, at=ORIGIN,
             mass=Mass(2.0, pivot_to_com * X, 0.3 * np.outer(along, along)))
    return arm.text()


@pytest.mark.parametrize('pivot_to_com', [0.0, 0.5])
def test_a_rod_must_lie_across_its_hinge(pivot_to_com):
    """A rod that leans along its hinge is no pendulum of the book, balanced at it or not."""
    assert load_dynamics(rod(X, pivot_to_com)).mechanism == 'spherical_pendulum'
    with pytest.raises(AssumptionError, match='link "rod"'):
        load_dynamics(rod(cos(0.3) * X + sin(0.3) * Y, pivot_to_com))


def test_only_masses_break_assumptions_about_masses():
    """A massless link has no centre of mass that could lie anywhere."""
    arm = ArmWriter('spatial_3r', np.random.default_rng(SEED))
    arm.body('column', on=arm.base, axis=Z, at=ORIGIN, mass=random_mass(arm.rng, ORIGIN))
    arm.body('upper', on='column', axis=Y, at=ORIGIN, mass=None)
    arm.body('fore', on='upper', axis=Y, at=0.5 * X, mass=random_mass(
        arm.rng, 0.8 * X, np.array([Y, X, Z])))
    assert load_dynamics(arm.text()).mechanism == 'spatial_3r'


# -- other mechanisms ------------------------------------------------------------------------


def chain(kinds: str, *, branching: bool = False) -> str:
    """Return an arm of joints such as 'RPR', one on the other or all on the base."""
    rng = np.random.default_rng(SEED)
    arm = ArmWriter('chain', rng, shuffle=False)
    carrier = arm.base
    for number, kind in enumerate(kinds, start=1):
        arm.body(f'body{number}', on=carrier, axis=Z, at=number * X,
                 kind={'R': 'revolute', 'P': 'prismatic'}[kind],
                 mass=random_mass(rng, number * X))
        carrier = arm.base if branching else f'body{number}'
    return arm.text()


@pytest.mark.parametrize('kinds', ['R', 'P', 'RP', 'PPP', 'RRP', 'RRRR', 'PRP', 'RRRRRRR'])
def test_other_chains_are_unrecognised_by_their_joints(kinds):
    """The error lists the joints with their types, the formulas, and the way out."""
    with pytest.raises(UnrecognisedMechanismError) as caught:
        load_dynamics(chain(kinds), 'closed_form')
    message = str(caught.value)
    for number, kind in enumerate(kinds, start=1):
        name = 'revolute' if kind == 'R' else 'prismatic'
        assert f'body{number}_joint ({name})' in message
    for word in (*SHIPPED, 'lagrangian', 'pinocchio'):
        assert word in message
    assert '\n' not in message


@pytest.mark.parametrize('kinds', ['RR', 'PP', 'PR', 'RRR'])
def test_branching_trees_are_unrecognised(kinds):
    """Two arms on one base are not an elbow."""
    with pytest.raises(UnrecognisedMechanismError, match='branching tree') as caught:
        load_dynamics(chain(kinds, branching=True), 'closed_form')
    assert not isinstance(caught.value, AssumptionError)


def test_three_parallel_joints_miss_an_assumption_of_the_spatial_elbow():
    """A planar arm of three joints is named as what it nearly is, with the angle found."""
    with pytest.raises(AssumptionError, match=r'"body2_joint".*right angles.*1\.57 rad'):
        load_dynamics(chain('RRR'), 'closed_form')


def test_mimic_joints_of_other_mechanisms_are_unrecognised():
    """A gripper whose fingers follow each other on an elbow has no formula."""
    rng = np.random.default_rng(SEED)
    arm = ArmWriter('gripper', rng)
    arm.body('link1', on=arm.base, axis=Z, at=ORIGIN, mass=random_mass(rng, X))
    arm.body('link2', on='link1', axis=Z, at=X, mass=random_mass(rng, X))
    left = arm.body('left', on='link2', axis=Y, at=X, mass=random_mass(rng, X), kind='prismatic')
    arm.body('right', on='link2', axis=-Y, at=X, mass=random_mass(rng, X), kind='prismatic',
             mimic=(left, 1.0))
    with pytest.raises(UnrecognisedMechanismError, match=r'left_joint \(prismatic\).*mimic'):
        load_dynamics(arm.text(), 'closed_form')


def test_random_trees_are_recognised_or_refused_with_the_packages_own_error():
    """Whatever the tree, the closed form gives an arm or an UnrecognisedMechanismError."""
    for number in range(60):
        rng = np.random.default_rng([SEED, number, 7])
        text = random_tree(rng, int(rng.integers(1, 8)))
        try:
            arm = load_dynamics(text, 'closed_form')
        except UnrecognisedMechanismError as error:
            assert '\n' not in str(error)
        else:
            assert arm.mechanism in SHIPPED


def test_an_elbow_reversed_in_both_joints_is_the_same_elbow():
    """Signs of axes change signs of coordinates, not parameters."""
    parameters = set()
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        text = edited('two_link', ('joint1/axis', {'xyz': f'0 {signs[0]} 0'}),
                      ('joint2/axis', {'xyz': f'0 {signs[1]} 0'}))
        formula = load_dynamics(text).formula
        parameters.add(tuple(round(value, 12) for value in (
            formula.m_1, formula.l_1, formula.l_c1, formula.I_1, formula.m_2, formula.l_c2,
            formula.I_2)))
    assert len(parameters) == 1


def test_welded_links_count_as_one():
    """A heavy tool on the flange moves the centre of mass of link 2 of the formula."""
    text = text_of('two_link')
    heavy = edited('two_link', *inertial('tool0', '1.5'))
    before, after = load_dynamics(text).formula, load_dynamics(heavy).formula
    assert after.m_2 == before.m_2 + 1.5
    np.testing.assert_allclose(
        after.l_c2, (before.m_2 * before.l_c2 + 1.5 * 0.4) / after.m_2, rtol=1e-14)

