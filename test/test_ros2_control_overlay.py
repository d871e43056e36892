# SPDX-License-Identifier: Apache-2.0
"""A plain URDF becomes one for ros2_control, and stays what it was otherwise."""

from xml.etree import ElementTree

import pytest
from shipped import SHIPPED

from ros_lagdyn import load_dynamics, shipped_urdf
from ros_lagdyn.command_line import main
from ros_lagdyn.errors import InvalidArgumentError, UrdfError
from ros_lagdyn.ros2_control_overlay import MOCK_HARDWARE, with_ros2_control
from ros_lagdyn.urdf_model import load_arm

ONE_JOINT = """<robot name="a &amp; b"><link name="base"/><link name="tip"><inertial>
<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="turn" type="continuous"><parent link="base"/><child link="tip"/></joint>
</robot><!-- </robot> <ros2_control> -->"""


def block(text: str) -> ElementTree.Element:
    (found,) = ElementTree.fromstring(text).findall('ros2_control')
    return found


@pytest.mark.parametrize('stem', SHIPPED)
def test_each_independent_joint_takes_effort_and_tells_its_state(stem):
    """Mimic joints are not the controller's business."""
    path = shipped_urdf(stem)
    system = block(with_ros2_control(path.read_text()))
    assert system.get('type') == 'system'
    assert system.findtext('hardware/plugin') == MOCK_HARDWARE
    joints = system.findall('joint')
    assert tuple(joint.get('name') for joint in joints) == load_dynamics(path).joints
    for joint in joints:
        assert [i.get('name') for i in joint.findall('command_interface')] == ['effort']
        assert [i.get('name') for i in joint.findall('state_interface')] == [
            'position', 'velocity', 'effort']


@pytest.mark.parametrize('stem', SHIPPED)
def test_initial_positions_are_within_the_limits(stem):
    path = shipped_urdf(stem)
    system = block(with_ros2_control(path.read_text()))
    for joint in load_arm(path).independent_joints:
        value = system.findtext(f"joint[@name='{joint.name}']/state_interface/param")
        assert joint.limit.lower <= float(value) <= joint.limit.upper


@pytest.mark.parametrize('stem', SHIPPED)
def test_the_rest_of_the_text_stays_as_it_is(stem):
    """What is added is one piece before the end."""
    text = shipped_urdf(stem).read_text()
    result = with_ros2_control(text)
    start = result.index('  <ros2_control')
    end = result.index('</ros2_control>\n') + len('</ros2_control>\n')
    assert result[:start] + result[end:] == text


def test_a_text_that_has_it_already_is_unchanged():
    text = with_ros2_control(ONE_JOINT, 'my_robot/Driver')
    assert block(text).findtext('hardware/plugin') == 'my_robot/Driver'
    assert with_ros2_control(text) == text


def test_tags_in_comments_are_not_tags():
    """The comment after the robot names both tags that are looked for."""
    text = with_ros2_control(ONE_JOINT)
    assert block(text).get('name') == 'a & b'
    assert text.endswith('<!-- </robot> <ros2_control> -->')


def test_an_effort_limit_that_is_not_known_is_not_enforced():
    unknown = ONE_JOINT.replace('</joint>', '<limit effort="0" velocity="0"/></joint>')
    command = block(with_ros2_control(unknown)).find('joint/command_interface')
    assert command.find('limits').get('enable') == 'false'
    shipped = block(with_ros2_control(shipped_urdf('two_link')))
    assert shipped.find('joint/command_interface/limits') is None


def test_names_are_quoted():
    system = block(with_ros2_control(ONE_JOINT.replace('turn', 'a&lt;b'), 'x<y'))
    assert system.find('joint').get('name') == 'a<b'
    assert system.findtext('hardware/plugin') == 'x<y'


@pytest.mark.parametrize('text', [
    '<robot name="x"/>', '<html/>', 'no xml', '<!DOCTYPE robot><robot name="x"/>'])
def test_what_is_no_arm_is_refused(text):
    with pytest.raises(UrdfError):
        with_ros2_control(f'{text}<' if '<' not in text else text)


def test_a_plugin_without_a_name_is_refused():
    with pytest.raises(InvalidArgumentError, match='plugin'):
        with_ros2_control(ONE_JOINT, ' ')


def test_the_command_prints_it(capsys):
    assert main(['ros2_control', 'five_bar', '--plugin', 'my_robot/Driver']) == 0
    text = shipped_urdf('five_bar').read_text()
    assert capsys.readouterr().out == with_ros2_control(text, 'my_robot/Driver')


def test_the_command_says_what_is_wrong(capsys):
    assert main(['ros2_control', 'no_such_arm']) == 2
    assert 'no_such_arm' in capsys.readouterr().err
