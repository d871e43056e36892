# SPDX-License-Identifier: Apache-2.0
"""Each shipped URDF is plain, standard, complete, and is the mechanism that it claims to be."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from urdf_parser_py.urdf import URDF

URDF_FOLDER = Path(__file__).resolve().parent.parent / 'urdf'
STEMS = [
    'cartesian',
    'five_bar',
    'prismatic_revolute',
    'skew_cartesian',
    'spatial_3r',
    'spherical_pendulum',
    'two_link',
    'two_link_remote',
]
SEED = 13
N_STATES = 200
EFFORT_MARGIN = 2.0  # how many times the worst gravity torque a motor must be able to give

# Each standard tag that is used, with the tags that may be inside it and its attributes.
STANDARD = {
    'robot': ({'material', 'link', 'joint'}, {'name'}),
    'material': ({'color'}, {'name'}),
    'color': (set(), {'rgba'}),
    'link': ({'inertial', 'visual', 'collision'}, {'name'}),
    'inertial': ({'origin', 'mass', 'inertia'}, set()),
    'mass': (set(), {'value'}),
    'inertia': (set(), {'ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'}),
    'visual': ({'origin', 'geometry', 'material'}, set()),
    'collision': ({'origin', 'geometry'}, set()),
    'geometry': ({'box', 'cylinder', 'sphere'}, set()),
    'box': (set(), {'size'}),
    'cylinder': (set(), {'radius', 'length'}),
    'sphere': (set(), {'radius'}),
    'origin': (set(), {'xyz', 'rpy'}),
    'joint': (
        {'parent', 'child', 'origin', 'axis', 'limit', 'dynamics', 'mimic'},
        {'name', 'type'},
    ),
    'parent': (set(), {'link'}),
    'child': (set(), {'link'}),
    'axis': (set(), {'xyz'}),
    'limit': (set(), {'lower', 'upper', 'effort', 'velocity'}),
    'dynamics': (set(), {'damping', 'friction'}),
    'mimic': (set(), {'joint', 'multiplier', 'offset'}),
}


@pytest.fixture(params=STEMS)
def text(request: pytest.FixtureRequest) -> str:
    """Return the XML text of one shipped URDF."""
    return read(request.param)


@pytest.fixture
def robot(text: str) -> ElementTree.Element:
    """Return the <robot> element of one shipped URDF."""
    return ElementTree.fromstring(text)


def read(stem: str) -> str:
    """Return the XML text of the URDF of that stem."""
    return (URDF_FOLDER / f'{stem}.urdf').read_text(encoding='utf-8')


def numbers(element: ElementTree.Element, attribute: str) -> np.ndarray:
    """Return an attribute such as '0 -1 0' as an array."""
    return np.array([float(word) for word in element.attrib[attribute].split()])


def moving_joints(robot: ElementTree.Element) -> list[ElementTree.Element]:
    """Return every joint that is not fixed."""
    return [joint for joint in robot.iter('joint') if joint.attrib['type'] != 'fixed']


def independent_joints(robot: ElementTree.Element) -> list[ElementTree.Element]:
    """Return every joint that moves by itself, ordered by name."""
    joints = [joint for joint in moving_joints(robot) if joint.find('mimic') is None]
    return sorted(joints, key=lambda joint: joint.attrib['name'])


def limits(joint: ElementTree.Element) -> tuple[float, float]:
    """Return the lower and upper limit of a joint, in rad or m."""
    limit = joint.find('limit')
    return float(limit.attrib['lower']), float(limit.attrib['upper'])


def joint_to(robot: ElementTree.Element, link: str) -> ElementTree.Element | None:
    """Return the joint whose child is that link, or None for the root."""
    found = [j for j in robot.iter('joint') if j.find('child').attrib['link'] == link]
    assert len(found) <= 1, f'link "{link}" has {len(found)} parents'
    return found[0] if found else None


def depth(robot: ElementTree.Element, link: str) -> int:
    """Return the number of joints between the root and a link."""
    joint = joint_to(robot, link)
    return 0 if joint is None else 1 + depth(robot, joint.find('parent').attrib['link'])


def states_within_limits(robot: ElementTree.Element) -> np.ndarray:
    """Return seeded positions of the independent joints, with both ends and the middle."""
    lower, upper = np.array([limits(joint) for joint in independent_joints(robot)]).T
    shares = np.random.default_rng(SEED).uniform(size=(N_STATES, len(lower)))
    corners = np.array(np.meshgrid(*[[0.0, 0.5, 1.0]] * len(lower))).reshape(len(lower), -1).T
    return lower + np.concatenate([shares, corners]) * (upper - lower)


def tree_of(robot: ElementTree.Element, text: str) -> tuple[pin.Model, np.ndarray]:
    """Return Pinocchio's full tree and P in q_tree = P q, the mimic tags expanded by hand."""
    model = pin.buildModelFromXML(text)
    columns = {j.attrib['name']: i for i, j in enumerate(independent_joints(robot))}
    P = np.zeros((model.nq, len(columns)))
    for joint in moving_joints(robot):
        row = model.joints[model.getJointId(joint.attrib['name'])].idx_q
        mimic = joint.find('mimic')
        if mimic is None:
            P[row, columns[joint.attrib['name']]] = 1.0
        else:
            assert float(mimic.attrib['offset']) == 0.0
            P[row, columns[mimic.attrib['joint']]] = float(mimic.attrib['multiplier'])
    return model, P


def position(model: pin.Model, q_tree: np.ndarray, frame: str) -> np.ndarray:
    """Return where a link's frame is, in base_link [m]."""
    data = model.createData()
    pin.framesForwardKinematics(model, data, q_tree)
    return data.oMf[model.getFrameId(frame, pin.FrameType.BODY)].translation.copy()


def test_the_eight_mechanisms_are_shipped():
    """The folder holds one URDF for each mechanism and nothing else."""
    assert sorted(path.name for path in URDF_FOLDER.iterdir()) == [f'{s}.urdf' for s in STEMS]


@pytest.mark.parametrize('stem', STEMS)
def test_the_robot_is_named_after_its_file(stem):
    """One stem names the file and the robot."""
    assert ElementTree.fromstring(read(stem)).attrib['name'] == stem


def test_only_plain_standard_tags(text, robot):
    """No xacro, no mesh, no custom tag or attribute, no document type."""
    assert '<!DOCTYPE' not in text
    assert 'xmlns' not in text
    assert robot.tag == 'robot'
    for element in robot.iter():
        children, attributes = STANDARD[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) <= attributes, element.tag
        assert not (element.text or '').strip(), f'text inside <{element.tag}>'


def test_the_file_says_which_document_it_is_from(text):
    """A comment above the robot names the lecture."""
    header = text[: text.index('<robot')]
    assert re.search(r'Lagrangian dynamics lecture 00\d', header)


def test_names_are_unique(robot):
    """Links, joints and materials have names of their own."""
    for tag in ('link', 'joint', 'material'):
        names = [element.attrib['name'] for element in robot.findall(tag)]
        assert len(names) == len(set(names)), tag


def test_the_tree_hangs_on_a_base_link_without_inertia(robot):
    """KDL, and so robot_state_publisher, warns about a root link that has inertia."""
    links = [link.attrib['name'] for link in robot.iter('link')]
    assert [name for name in links if joint_to(robot, name) is None] == ['base_link']
    base = robot.find("link[@name='base_link']")
    assert base.find('inertial') is None
    assert base.find('visual') is not None


def test_tool0_is_the_tip(robot):
    """The frame tool0 is fixed to the end of the longest chain, and nothing hangs on it."""
    assert len(robot.find("link[@name='tool0']")) == 0
    assert joint_to(robot, 'tool0').attrib['type'] == 'fixed'
    assert 'tool0' not in [joint.find('parent').attrib['link'] for joint in robot.iter('joint')]
    deepest = max(depth(robot, link.attrib['name']) for link in robot.iter('link'))
    assert depth(robot, 'tool0') == deepest


def test_joints_are_revolute_prismatic_or_fixed(robot):
    """A continuous joint would be stored as (cos, sin) and would have no limits."""
    assert {joint.attrib['type'] for joint in robot.iter('joint')} <= {
        'revolute',
        'prismatic',
        'fixed',
    }


def test_independent_joints_are_joint1_joint2_and_so_on(robot):
    """The motors are numbered without a gap."""
    names = [joint.attrib['name'] for joint in independent_joints(robot)]
    assert names == [f'joint{i + 1}' for i in range(len(names))]
    assert len(names) == (3 if robot.attrib['name'] == 'spatial_3r' else 2)


def test_moving_joints_have_a_unit_axis_and_limits(robot):
    """Position, effort and velocity are limited on every joint that moves."""
    for joint in moving_joints(robot):
        assert joint.find('limit') is not None, joint.attrib['name']
        lower, upper = limits(joint)
        assert lower < upper, joint.attrib['name']
        assert float(joint.find('limit').attrib['effort']) > 0.0
        assert float(joint.find('limit').attrib['velocity']) > 0.0
        np.testing.assert_allclose(np.linalg.norm(numbers(joint.find('axis'), 'xyz')), 1.0)


def test_motors_have_damping_and_friction(robot):
    """Every independent joint loses a little power."""
    for joint in independent_joints(robot):
        dynamics = joint.find('dynamics')
        assert float(dynamics.attrib['damping']) > 0.0
        assert float(dynamics.attrib['friction']) > 0.0


def test_mimic_joints_can_follow_to_both_limits(robot):
    """The range of a mimic joint holds all that its leader can ask for, position and speed."""
    leaders = {joint.attrib['name']: joint for joint in independent_joints(robot)}
    for joint in moving_joints(robot):
        mimic = joint.find('mimic')
        if mimic is None:
            continue
        leader, ratio = leaders[mimic.attrib['joint']], float(mimic.attrib['multiplier'])
        lower, upper = limits(joint)
        asked = [ratio * end for end in limits(leader)]
        assert lower <= min(asked)
        assert max(asked) <= upper
        assert float(joint.find('limit').attrib['velocity']) >= abs(ratio) * float(
            leader.find('limit').attrib['velocity']
        )


def test_referenced_materials_are_defined_and_used(robot):
    """Colours are defined once, on the robot; links only name them."""
    defined = {m.attrib['name'] for m in robot.findall('material')}
    assert all(m.find('color') is not None for m in robot.findall('material'))
    references = robot.findall('link/visual/material')
    assert all(len(reference) == 0 for reference in references)
    assert {reference.attrib['name'] for reference in references} == defined
    assert len(references) == len(robot.findall('link/visual'))


def test_colours_mean_the_same_in_every_file():
    """A colour name has one value in all the files."""
    values = {}
    for stem in STEMS:
        for material in ElementTree.fromstring(read(stem)).findall('material'):
            values.setdefault(material.attrib['name'], set()).add(material[0].attrib['rgba'])
    assert {name: len(rgba) for name, rgba in values.items()} == dict.fromkeys(values, 1)


def test_massive_links_are_drawn_and_can_collide(robot):
    """What has mass has a shape, for the eye and for the collision checker."""
    massive = [link for link in robot.iter('link') if link.find('inertial') is not None]
    assert massive
    for link in massive:
        assert link.find('visual/geometry') is not None, link.attrib['name']
        assert link.find('collision/geometry') is not None, link.attrib['name']
        assert {child.tag for child in link.find('inertial')} == {'origin', 'mass', 'inertia'}


def test_inertias_are_those_of_real_bodies(robot):
    """Masses are positive; no principal moment exceeds the sum of the other two."""
    for inertial in robot.iter('inertial'):
        assert float(inertial.find('mass').attrib['value']) > 0.0
        i = {name: float(value) for name, value in inertial.find('inertia').attrib.items()}
        tensor = np.array(
            [
                [i['ixx'], i['ixy'], i['ixz']],
                [i['ixy'], i['iyy'], i['iyz']],
                [i['ixz'], i['iyz'], i['izz']],
            ]
        )
        smallest, middle, largest = np.linalg.eigvalsh(tensor)
        assert smallest >= 0.0
        assert largest <= smallest + middle


def test_pinocchio_loads_it(text, robot):
    """Pinocchio's own parser finds the same joints, one position for each, and the same mass."""
    model = pin.buildModelFromXML(text)
    assert set(model.names) - {'universe'} == {j.attrib['name'] for j in moving_joints(robot)}
    assert model.nq == model.nv == len(moving_joints(robot))
    mass = sum(float(element.attrib['value']) for element in robot.iter('mass'))
    np.testing.assert_allclose(pin.computeTotalMass(model), mass, rtol=1e-12)


def test_urdf_parser_py_has_nothing_to_say(text, robot, capfd):
    """ROS's Python parser reads it without a warning."""
    parsed = URDF.from_xml_string(text)
    assert capfd.readouterr() == ('', '')
    assert len(parsed.links) == len(robot.findall('link'))
    assert len(parsed.joints) == len(robot.findall('joint'))


def test_motors_can_hold_the_arm_against_gravity(text, robot):
    """The effort limits exceed the worst gravity torque within the limits, with a margin."""
    model, P = tree_of(robot, text)
    data = model.createData()
    gravity = [
        P.T @ pin.computeGeneralizedGravity(model, data, P @ q)
        for q in states_within_limits(robot)
    ]
    worst = np.abs(gravity).max(axis=0)
    for joint, torque in zip(independent_joints(robot), worst, strict=True):
        effort = float(joint.find('limit').attrib['effort'])
        assert effort >= EFFORT_MARGIN * torque, (joint.attrib['name'], torque)


def test_the_five_bar_loop_closes():
    """The two free ends of the parallelogram meet at every motor angle, within 1e-12 m."""
    text = read('five_bar')
    model, P = tree_of(ElementTree.fromstring(text), text)
    for q in np.random.default_rng(SEED).uniform(-np.pi, np.pi, size=(N_STATES, 2)):
        end3, end4 = (position(model, P @ q, frame) for frame in ('closing3', 'closing4'))
        np.testing.assert_allclose(end3, end4, rtol=0.0, atol=1e-12)
        e_1, e_2 = (np.array([np.cos(angle), 0.0, np.sin(angle)]) for angle in q)
        expected = np.array([0.0, 0.0, 0.5]) + 0.5 * e_1 + 0.25 * e_2
        np.testing.assert_allclose(end3, expected, rtol=0.0, atol=1e-12)


def test_the_five_bar_never_folds_flat():
    """Within the limits the parallelogram keeps at least 15 degrees between its sides."""
    between = np.diff(states_within_limits(ElementTree.fromstring(read('five_bar'))), axis=1)
    assert np.radians(15.0) < between.min()
    assert between.max() < np.radians(165.0)


def test_the_five_bar_motors_feel_each_other():
    """The design condition m_3 l_2 l_c3 = m_4 l_1 l_c4 does not hold, so couplings show."""
    text = read('five_bar')
    model, P = tree_of(ElementTree.fromstring(text), text)
    M = P.T @ pin.crba(model, model.createData(), P @ np.zeros(2)) @ P
    assert abs(M[0, 1]) > 0.1 * np.sqrt(M[0, 0] * M[1, 1])


def test_remote_links_are_those_of_two_link():
    """Driving link 2 from the base changes the coordinates, not the links."""
    direct, remote = (ElementTree.fromstring(read(s)) for s in ('two_link', 'two_link_remote'))
    for name in ('link1', 'link2'):
        path = f"link[@name='{name}']/inertial"
        assert [child.attrib for child in direct.find(path)] == [
            child.attrib for child in remote.find(path)
        ]


def test_the_remote_second_angle_is_absolute():
    """Turning joint1 alone moves link 2 but does not turn it."""
    text = read('two_link_remote')
    model, P = tree_of(ElementTree.fromstring(text), text)
    for q in np.random.default_rng(SEED).uniform(-np.pi, np.pi, size=(N_STATES, 2)):
        forearm = position(model, P @ q, 'tool0') - position(model, P @ q, 'link2')
        expected = 0.4 * np.array([np.cos(q[1]), 0.0, np.sin(q[1])])
        np.testing.assert_allclose(forearm, expected, rtol=0.0, atol=1e-12)


def test_the_pendulum_bob_is_in_spherical_coordinates():
    """The bob is at l (sin theta cos phi, sin theta sin phi, -cos theta) below the gimbal."""
    text = read('spherical_pendulum')
    model, P = tree_of(ElementTree.fromstring(text), text)
    for phi, theta in np.random.default_rng(SEED).uniform(-np.pi, np.pi, size=(N_STATES, 2)):
        bob = position(model, P @ [phi, theta], 'tool0') - [0.0, 0.0, 1.0]
        s, c = np.sin(theta), np.cos(theta)
        expected = 0.6 * np.array([s * np.cos(phi), s * np.sin(phi), -c])
        np.testing.assert_allclose(bob, expected, rtol=0.0, atol=1e-12)


def test_the_skew_axes_are_sixty_degrees_apart():
    """The two slides of the skew robot make an angle of 60 degrees, to the last digit."""
    joints = independent_joints(ElementTree.fromstring(read('skew_cartesian')))
    first, second = (numbers(joint.find('axis'), 'xyz') for joint in joints)
    np.testing.assert_allclose(first @ second, 0.5, rtol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(second), 1.0, rtol=1e-15)
