# SPDX-License-Identifier: Apache-2.0
"""A whole check of an arm: no false alarm on odd but sound arms, no silence on wrong ones."""

from __future__ import annotations

import os
import pickle
import sys

import numpy as np
import pytest
from shipped import ENGINES, load, text_of

from ros_lagdyn import LagdynError, load_dynamics, structure
from ros_lagdyn.check import check_arm
from ros_lagdyn.command_line import main
from ros_lagdyn.sampling import FARTHEST_TURN, random_states


def link(name: str, mass: float, com: str, moment: float, more: str = '') -> str:
    """Return a link with a ball's inertia."""
    return (f'<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/><inertia '
            f'ixx="{moment}" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial>'
            f'{more}</link>')


def joint(name: str, kind: str, parent: str, child: str, xyz: str = '0 0 0', axis: str = '0 0 1',
          rpy: str = '0 0 0', limit: str = 'lower="-3" upper="3"', mimic: str = '') -> str:
    """Return a joint."""
    return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/><limit {limit} effort="10" '
            f'velocity="5"/>{mimic}</joint>')


def robot(*parts: str) -> str:
    """Return a URDF on a massless base."""
    return '<robot name="odd"><link name="base"/>' + ''.join(parts) + '</robot>'


def elbow_far_away(distance: float, length: float) -> str:
    """Return an elbow in a vertical plane, far from the origin of its root link."""
    return robot(
        link('upper', 2.0, f'{length / 2} 0 0', 0.01 * length**2),
        link('fore', 1.0, f'{length / 3} 0 0', 0.01 * length**2),
        joint('shoulder', 'revolute', 'base', 'upper', f'{distance} {distance} 0', '0 1 0'),
        joint('elbow', 'revolute', 'upper', 'fore', f'{length} 0 0', '0 1 0'))


def tool_on_a_gantry(lever: float) -> str:
    """Return a light tool, its mass a little off its axis, on a heavy slide of 6 m."""
    return robot(
        link('carriage', 20.0, '0 0 0', 1.0), link('tool', 0.1, f'{lever} 0 0', 1e-7),
        joint('slide', 'prismatic', 'base', 'carriage', axis='1 0 0'),
        joint('turn', 'revolute', 'carriage', 'tool', '0 0 -0.1', '0 1 0'))


def balanced_rotor() -> str:
    """Return a rotor whose two weights, welded on at an angle, balance each other."""
    return robot(
        link('rotor', 1.0, '0 0 0', 0.001),
        link('weight', 1.0, '0.1 0 0', 0.001), link('counterweight', 3.0, '-0.1 0 0', 0.001),
        joint('turn', 'revolute', 'base', 'rotor', axis='0 1 0'),
        joint('weld', 'fixed', 'rotor', 'weight', rpy='0 0.3 0'),
        joint('other_weld', 'fixed', 'rotor', 'counterweight', '0.06368909 0 -0.01970134',
              rpy='0 0.3 0'))


ODD_BUT_SOUND = {
    'elbow 10 m away, links of 0.1 m': elbow_far_away(10.0, 0.1),
    'elbow 100 m away': elbow_far_away(100.0, 1.0),
    'elbow 1000 m away': elbow_far_away(1000.0, 1.0),
    'tool 1 cm off on a slide of 6 m': tool_on_a_gantry(0.01),
    'tool 1 mm off on a slide of 6 m': tool_on_a_gantry(0.001),
    'balanced rotor': balanced_rotor(),
    'limits without end': elbow_far_away(0.0, 1.0).replace(
        'lower="-3" upper="3"', 'lower="-1e16" upper="1e16"'),
    'limits of the largest number': elbow_far_away(0.0, 1.0).replace(
        'lower="-3" upper="3"', 'lower="-1.7e308" upper="1.7e308"'),
    'limits left out': elbow_far_away(0.0, 1.0).replace('lower="-3" upper="3"', ''),
    'slide that mimics with a gear': robot(
        link('arm', 1.0, '0.1 0 0', 0.01), link('rack', 1.0, '0.1 0.2 0', 0.01),
        joint('turn', 'revolute', 'base', 'arm'),
        joint('rack_slide', 'prismatic', 'arm', 'rack', axis='1 0 0', limit='',
              mimic='<mimic joint="turn" multiplier="20" offset="5"/>')),
}


@pytest.mark.parametrize('name', ODD_BUT_SOUND)
def test_odd_but_sound_arms_raise_no_alarm(name):
    """Far from the root, finely balanced or without limits, an arm is still an arm."""
    report = check_arm(ODD_BUT_SOUND[name], states=300)
    assert report.faults == ()


def test_limits_without_end_are_not_sampled():
    """Positions beyond some turns would cost digits and show nothing."""
    arm = load_dynamics(ODD_BUT_SOUND['limits of the largest number']).arm
    assert abs(random_states(arm, 100, 0)[0]).max() <= FARTHEST_TURN


@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_structure_looks_beyond_the_limits_of_a_slide(engine):
    """A slide that may not move now still changes M where it would."""
    arm = robot(
        link('boom', 1.0, '0.1 0 0', 0.01), link('ram', 1.0, '0.1 0 0', 0.01),
        joint('turn', 'revolute', 'base', 'boom'),
        joint('slide', 'prismatic', 'boom', 'ram', axis='1 0 0', limit='lower="0" upper="0"'))
    assert structure(load_dynamics(arm, engine)).mass_matrix_varies_with[0][0] == ('slide',)


@pytest.mark.parametrize('engine', ENGINES)
def test_forward_dynamics_does_not_depend_on_units(engine):
    """A light tool on a heavy slide has an M of very different entries, but it is regular."""
    arm = load_dynamics(robot(
        link('carriage', 1e4, '0 0 0', 1.0), link('tool', 1e-3, '0.001 0 0', 0.0),
        joint('slide', 'prismatic', 'base', 'carriage', axis='1 0 0'),
        joint('turn', 'revolute', 'carriage', 'tool', axis='0 1 0')), engine)
    q, v, a = np.array([0.3, 0.4]), np.array([0.1, 2.0]), np.array([0.5, 7.0])
    again = arm.forward_dynamics(q, v, arm.inverse_dynamics(q, v, a))
    np.testing.assert_allclose(again, a, rtol=1e-6)


def test_a_tilted_axis_is_accepted_only_where_it_changes_nothing():
    """1.5708 for a right angle is harmless in a vertical plane, and wrong for a SCARA."""
    def elbow(rpy: str, axis: str, gravity: tuple[float, float, float]) -> None:
        load_dynamics(robot(
            link('upper', 1.0, '0.5 0 0', 0.1), link('fore', 1.0, '0.4 0 0', 0.1),
            joint('shoulder', 'revolute', 'base', 'upper'),
            joint('elbow', 'revolute', 'upper', 'fore', '1 0 0', axis, rpy)), gravity=gravity)

    elbow('1.5708 0 0', '0 1 0', (0.0, -9.81, 0.0))
    with pytest.raises(LagdynError, match=r'joint "elbow".*parallel.*3\.67e-06 rad.*digits'):
        elbow('1.5708 0 0', '0 1 0', (0.0, 0.0, -9.81))
    elbow('1.5707963267948966 0 0', '0 1 0', (0.0, 0.0, -9.81))


def test_the_text_of_a_file_is_never_taken_for_a_path(tmp_path, capsys):
    """A file that holds the name of another file does not make that one be read."""
    other = tmp_path / 'other.urdf'
    other.write_text(text_of('two_link'))
    pointer = tmp_path / 'pointer.urdf'
    pointer.write_text(str(other))
    assert main(['check', str(pointer)]) == 2
    assert 'malformed XML' in capsys.readouterr().err


def test_a_pipe_is_a_file_too():
    """`lagdyn check <(xacro arm.xacro)` reads a pipe."""
    reader, writer = os.pipe()
    os.write(writer, text_of('cartesian').encode())
    os.close(writer)
    try:
        assert load_dynamics(f'/dev/fd/{reader}').joints == ('joint1', 'joint2')
    finally:
        os.close(reader)


@pytest.mark.parametrize('engine', ENGINES)
def test_engines_can_be_sent_to_another_process(stem, engine):
    """A pickled engine computes the same."""
    arm = load(stem, engine)
    q = random_states(arm.arm, 1, 0)[0][0]
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(arm)).mass_matrix(q), arm.mass_matrix(q))


def test_without_pinocchio_the_error_says_how_to_get_it(monkeypatch, capsys):
    """The formulas work without Pinocchio; the command says what is missing, in one line."""
    monkeypatch.setitem(sys.modules, 'pinocchio', None)
    monkeypatch.delitem(sys.modules, 'ros_lagdyn.pinocchio_dynamics', raising=False)
    assert load_dynamics(text_of('two_link')).mechanism == 'two_link'
    assert main(['check', 'two_link', '--states', '1']) == 2
    assert capsys.readouterr().err == (
        'lagdyn: two_link: engine "pinocchio" needs Pinocchio: install it with pip (its name is '
        'pin) or rosdep (pinocchio)\n')


def test_drawings_do_not_reach_the_parsers(capfd):
    """A colour that no reader understands is no concern of dynamics, and nothing is printed."""
    bad = text_of('two_link').replace('rgba="', 'rgba="red ', 1)
    assert bad != text_of('two_link')
    for engine in ENGINES:
        load_dynamics(bad, engine)
    assert capfd.readouterr() == ('', '')
