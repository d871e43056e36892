# SPDX-License-Identifier: Apache-2.0
"""Launch files and what they load: complete, described, and true to the nodes' topics."""

import ast
import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from ros_lagdyn.shipped_arms import STEMS
from ros_lagdyn.urdf_model import load_arm

CHECKOUT = Path(__file__).resolve().parents[1]
LAUNCH = CHECKOUT / 'launch'
CONFIG = CHECKOUT / 'config'
LAUNCH_FILES = sorted(LAUNCH.glob('*.launch.py'))
TOPICS = {  # of the node lagdyn
    'inverse_dynamics', 'gravity_compensation', 'coriolis', 'actuator_torques', 'residual',
    'mass_matrix', 'cross_check', 'command', 'markers'}
ARGUMENTS = {'urdf', 'rviz', 'simulator', 'command_mode', 'engine', 'namespace', 'use_sim_time',
             'params_file', 'frame'}
CLOSED = {'rviz', 'simulator', 'command_mode', 'engine', 'use_sim_time', 'arm'}


def calls(file: Path, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == name]


def literals(call: ast.Call) -> dict[str, object]:
    return {keyword.arg: keyword.value.value for keyword in call.keywords
            if isinstance(keyword.value, ast.Constant)}


def parameters(file: Path) -> dict[str, dict]:
    """Return section -> its values."""
    return {section: content['ros__parameters']
            for section, content in yaml.safe_load(file.read_text()).items()}


# -- without ROS -----------------------------------------------------------------------------


@pytest.mark.parametrize('stem', STEMS)
def test_every_arm_has_a_launch_file(stem):
    (include,) = calls(LAUNCH / f'{stem}.launch.py', 'IncludeLaunchDescription')
    assert f"{{'arm': '{stem}'}}" in ast.unparse(include)


@pytest.mark.parametrize('file', LAUNCH_FILES, ids=lambda file: file.name)
def test_every_argument_is_described(file):
    for call in calls(file, 'DeclareLaunchArgument'):
        assert literals(call).get('description', '').endswith('.'), ast.unparse(call)


@pytest.mark.parametrize('file', LAUNCH_FILES, ids=lambda file: file.name)
def test_launch_file_is_one_flat_list(file):
    assert not calls(file, 'OpaqueFunction')
    assert len(calls(file, 'LaunchDescription')) == 1


@pytest.mark.parametrize('file', LAUNCH_FILES, ids=lambda file: file.name)
def test_every_node_has_a_comment_above(file):
    lines = file.read_text().splitlines()
    for call in calls(file, 'Node') + calls(file, 'IncludeLaunchDescription'):
        assert lines[call.lineno - 2].lstrip().startswith('# '), ast.unparse(call)


@pytest.mark.parametrize('stem', STEMS)
def test_the_simulated_arm_starts_within_its_limits(stem):
    values = parameters(CONFIG / f'{stem}.yaml')
    start = values['/**/arm_simulator']['initial_position']
    joints = load_arm(CHECKOUT / 'urdf' / f'{stem}.urdf').independent_joints
    assert len(start) == len(joints)
    for position, joint in zip(start, joints, strict=True):
        assert joint.limit.lower < position < joint.limit.upper


@pytest.mark.parametrize('file', sorted(CONFIG.glob('*.yaml')), ids=lambda file: file.name)
def test_config_leaves_to_the_arguments_what_is_theirs(file):
    """A file that is loaded last would silence engine:= and command_mode:=."""
    for values in parameters(file).values():
        assert 'engine' not in values
        assert 'mode' not in values.get('command', {})
        assert 'command.mode' not in values


def test_what_launch_files_start_and_load_is_a_dependency():
    needed = {literals(call)['package'] for file in LAUNCH_FILES for call in calls(file, 'Node')}
    for values in parameters(CONFIG / 'controllers.yaml').values():
        if 'type' in values:
            needed.add(values['type'].split('/')[0])
    assert {'rviz2', 'controller_manager', 'forward_command_controller'} <= needed
    package = ElementTree.parse(CHECKOUT / 'package.xml').getroot()
    declared = {element.text for element in package.findall('exec_depend')}
    assert needed - {package.findtext('name')} <= declared


def test_commands_are_in_the_controllers_order():
    values = parameters(CONFIG / 'controllers.yaml')
    controller = values['/**/effort_controller']
    assert controller['interface_name'] == 'effort'
    assert values['/**/lagdyn']['command']['joints'] == controller['joints']
    types = {name: content['type']
             for name, content in values['/**/controller_manager'].items()
             if isinstance(content, dict)}
    assert types == {
        'joint_state_broadcaster': 'joint_state_broadcaster/JointStateBroadcaster',
        'effort_controller': 'forward_command_controller/ForwardCommandController'}
    # A section for all nodes would hide the others from Humble's spawner.
    assert '/**' not in values


def test_rviz_shows_topics_of_the_node_in_any_namespace():
    manager = yaml.safe_load((CONFIG / 'ros_lagdyn.rviz').read_text())['Visualization Manager']
    shown = {}
    for display in manager['Displays']:
        kind = display['Class'].removeprefix('rviz_default_plugins/')
        topic = display.get('Topic', display.get('Description Topic', {})).get('Value')
        shown.setdefault(kind, set()).add(topic)
        # rviz loads Value before the properties, Enabled after them: without the first, an
        # Effort display is still off when it gets its topic, and never subscribes.
        assert display['Enabled'] is display['Value'] is True
        if kind == 'Effort':
            assert display['Robot Description'] == 'robot_description'
    assert shown == {
        'Grid': {None}, 'RobotModel': {'robot_description'}, 'TF': {None},
        'Effort': {'lagdyn/inverse_dynamics', 'lagdyn/gravity_compensation'},
        'MarkerArray': {'lagdyn/markers'}}


def test_plotjuggler_plots_topics_of_the_node():
    root = ElementTree.parse(CONFIG / 'plotjuggler.xml').getroot()
    selected = root.find('Plugins/plugin/selected_topics').get('value').split(';')
    assert {topic.removeprefix('/lagdyn/') for topic in selected} <= TOPICS
    curves = [curve.get('name') for curve in root.iter('curve')]
    assert curves
    for curve in curves:
        assert any(curve.startswith(f'{topic}/') for topic in selected), curve
    for splitter in root.iter('DockSplitter'):
        assert int(splitter.get('count')) == len(splitter) == len(
            splitter.get('sizes').split(';'))


# -- with launch -----------------------------------------------------------------------------


@pytest.fixture
def describe():
    """Return a function: launch file -> its launch description."""
    for module in ('launch', 'launch_ros'):
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:  # the folder launch/ is not ROS's package
            pytest.skip(f'{module} is not installed: it comes with ROS 2, not from PyPI')
    from launch.launch_description_sources import get_launch_description_from_python_launch_file

    return lambda name: get_launch_description_from_python_launch_file(str(LAUNCH / name))


@pytest.mark.parametrize('name', [f'{stem}.launch.py' for stem in STEMS])
def test_an_arm_takes_every_argument(describe, name):
    """Through two includes, as `ros2 launch --show-args` lists them."""
    found = {argument.name: argument for argument in describe(name).get_launch_arguments()}
    assert set(found) == ARGUMENTS | {'arm'}
    for argument in found.values():
        assert argument.description
        assert argument.default_value is not None
        assert bool(argument.choices) == (argument.name in CLOSED)
    assert set(found['arm'].choices) == set(STEMS)


def test_only_the_urdf_must_be_given(describe):
    required = [argument.name for argument in describe('lagdyn.launch.py').get_launch_arguments()
                if argument.default_value is None]
    assert required == ['urdf']


def test_ros2_control_takes_every_argument_but_the_simulator(describe):
    found = {argument.name
             for argument in describe('ros2_control.launch.py').get_launch_arguments()}
    assert found == (ARGUMENTS | {'controllers_file'}) - {'simulator'}
