# SPDX-License-Identifier: Apache-2.0
"""The life of the node: descriptions early, late, never and bad; transitions; how it ends."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import load, text_of

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from lifecycle_msgs.msg import TransitionEvent  # noqa: E402
from ros_graph import (  # noqa: E402
    ERROR,
    LATCHED,
    OK,
    WARN,
    NodeProcess,
    Probe,
    Stamps,
    joint_state,
    running,
)
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray, String  # noqa: E402

from ros_lagdyn.dynamics import load_dynamics  # noqa: E402
from ros_lagdyn.ros_node.command_output import LET_GO, LET_GO_EVERY  # noqa: E402
from ros_lagdyn.ros_node.outputs import TOPICS  # noqa: E402

TWO_LINK = text_of('two_link')
HEAVY = TWO_LINK.replace('<mass value="2"/>', '<mass value="3"/>')
RENAMED = re.sub(r'"joint([12])"', r'"hinge\1"', TWO_LINK)
GARBAGE = '<robot name="nonsense"><link name="base"'
# A massless link that turns about the axis of the next: M is singular everywhere.
SINGULAR = """<robot name="singular">
  <link name="base"/><link name="nothing"/>
  <link name="rod"><inertial><origin xyz="0.5 0 0"/><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="joint1" type="revolute"><parent link="base"/><child link="nothing"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="3"/></joint>
  <joint name="joint2" type="revolute"><parent link="nothing"/><child link="rod"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="3"/></joint>
</robot>"""
Q = (0.4, 0.7)
QUIET = 0.4  # [s] in which nothing must happen


class Session:
    """One node in a process, and the probe that talks to it."""

    def __init__(self, node: NodeProcess, probe: Probe) -> None:
        self.node, self.probe = node, probe
        self.stamps = Stamps()
        self.torques: list[JointState] = []
        self._publishers: dict[str, Any] = {}

    def listen(self) -> None:
        """Collect ~/gravity_compensation from now on, whoever publishes it."""
        self.torques = self.probe.subscribe(JointState, '~/gravity_compensation', matched=False)

    def describe(self, text: str) -> None:
        """Publish a robot_description as robot_state_publisher does."""
        if 'robot_description' not in self._publishers:
            self._publishers['robot_description'] = self.probe.publisher(
                String, 'robot_description', LATCHED, matched=False)
        self._publishers['robot_description'].publish(String(data=text))

    def send(self, names: tuple[str, ...] = ('joint1', 'joint2')) -> int:
        """Send a joint state at Q and rest; return its stamp [ns]."""
        if 'joint_states' not in self._publishers:
            self._publishers['joint_states'] = self.probe.publisher(
                JointState, 'joint_states', matched=False)
        stamp = self.stamps()
        self._publishers['joint_states'].publish(joint_state(names, Q, (0.0, 0.0), stamp=stamp))
        return stamp

    def gravity(self, names: tuple[str, ...] = ('joint1', 'joint2')) -> JointState:
        """Send joint states until one is answered, and return that answer."""
        self.torques.clear()

        def answered() -> JointState | None:
            self.send(names)
            self.probe.executor.spin_once(timeout_sec=0.05)
            return next((message for message in self.torques if message.name == list(names)), None)

        return self.probe.wait_for(answered, what='an answer')

    def is_silent(self) -> None:
        """Assert that joint states are not answered."""
        self.probe.executor.spin_once(timeout_sec=0.05)
        self.torques.clear()
        for _ in range(5):
            self.send()
        self.probe.sees_nothing(self.torques, QUIET)

    def says(self, text: str) -> None:
        """Wait until the log of the node has a text."""
        self.probe.wait_for(lambda: text in self.node.output(), what=f'the log to say: {text}')


@contextmanager
def session(folder: Path, parameters: Mapping[str, Any] | None = None, **given: Any
            ) -> Iterator[Session]:
    with running('dynamics_node', folder, parameters, **given) as node:
        probe = Probe('/lagdyn', node)
        try:
            one = Session(node, probe)
            one.listen()
            yield one
            probe.processes.clear()
        finally:
            probe.close()


def expected(text: str) -> np.ndarray:
    return load_dynamics(text, 'lagrangian').gravity(Q)


def assert_gravity(message: JointState, text: str = TWO_LINK) -> None:
    np.testing.assert_allclose(message.effort, expected(text), rtol=1e-10)


# -- transitions -------------------------------------------------------------------------------


def test_autostart_configures_and_activates_with_the_description_parameter(
        tmp_path: Path) -> None:
    """`ros2 run` just works."""
    with session(tmp_path, {'robot_description': TWO_LINK}) as one:
        assert_gravity(one.gravity())
        assert one.probe.state() == 'active'
        status = one.probe.diagnostics('model')
        assert status.level == OK
        assert {entry.key: entry.value for entry in status.values}['state'] == 'active'
        assert 'self-test passed' in one.node.output()


def test_a_manager_drives_the_node_through_every_transition_again_and_again(
        tmp_path: Path) -> None:
    """Nothing comes out unless it is active; nothing of it is left after cleanup."""
    with session(tmp_path, {'robot_description': TWO_LINK, 'autostart': False}) as one:
        probe = one.probe
        events = probe.subscribe(TransitionEvent, '~/transition_event')
        assert probe.state() == 'unconfigured'
        one.is_silent()
        status = probe.diagnostics('model')
        assert status.level == WARN and 'configure' in status.message
        for _ in range(3):
            assert probe.change_state('configure')
            assert probe.state() == 'inactive'
            one.is_silent()
            for _ in range(2):
                assert probe.change_state('activate')
                assert probe.state() == 'active'
                assert_gravity(one.gravity())
                assert probe.change_state('deactivate')
                assert probe.state() == 'inactive'
                one.is_silent()
            assert probe.node.get_publishers_info_by_topic('/lagdyn/gravity_compensation')
            assert probe.change_state('cleanup')
            assert probe.state() == 'unconfigured'
            for topic in TOPICS:
                probe.wait_for(
                    lambda topic=topic: not probe.node.get_publishers_info_by_topic(
                        probe.topic(topic)), what=f'the end of {topic}')
            for topic in ('~/reference', '~/external_wrench', 'joint_states'):
                probe.wait_for(
                    lambda topic=topic: not probe.node.get_subscriptions_info_by_topic(
                        probe.topic(topic)), what=f'the end of {topic}')
        # What the state does not allow is refused, and breaks nothing.
        assert not probe.change_state('activate')
        assert not probe.change_state('deactivate')
        assert probe.state() == 'unconfigured'
        assert probe.change_state('configure')
        assert not probe.change_state('configure')
        assert probe.state() == 'inactive'
        assert probe.change_state('inactive_shutdown')
        assert probe.state() == 'finalized'
        one.is_silent()
        assert {event.goal_state.label for event in events} >= {
            'inactive', 'active', 'unconfigured', 'finalized'}


@pytest.mark.parametrize('transition', ['active_shutdown', 'unconfigured_shutdown'])
def test_shutdown_is_for_good(tmp_path: Path, transition: str) -> None:
    """Neither a new description nor a parameter brings it back."""
    start = transition.startswith('active')
    with session(tmp_path, {'robot_description': TWO_LINK, 'autostart': start}) as one:
        if start:
            one.gravity()
        assert one.probe.change_state(transition)
        assert one.probe.state() == 'finalized'
        one.probe.try_set({'gravity': [0.0, 0.0, -5.0]})
        one.probe.try_set({'robot_description': HEAVY})
        one.is_silent()
        assert one.probe.state() == 'finalized'


def test_after_cleanup_an_autostarted_node_waits_to_be_configured(tmp_path: Path) -> None:
    """It starts itself once; afterwards it obeys. The last description is kept, or replaced."""
    with session(tmp_path) as one:
        one.describe(TWO_LINK)
        one.gravity()
        probe = one.probe
        assert probe.change_state('deactivate')
        assert probe.change_state('cleanup')
        one.describe(HEAVY)
        one.probe.set({'payload.mass': 0.0})
        one.is_silent()
        assert probe.state() == 'unconfigured'
        assert probe.change_state('configure')
        assert probe.change_state('activate')
        assert_gravity(one.gravity(), HEAVY)


def test_a_manager_may_be_quicker_than_autostart(tmp_path: Path) -> None:
    """Configured by hand while it waits for a description: it stays what it was told to be."""
    with session(tmp_path, {'robot_description_timeout': 10.0}) as one:
        probe = one.probe
        assert probe.state() == 'unconfigured'
        client = probe.node.create_client(*_configure(probe))
        probe.wait_for(client.service_is_ready, what='the service')
        future = client.call_async(_configure_request())
        # The node now waits inside of the transition.
        one.describe(TWO_LINK)
        probe.wait_for(future.done, what='the transition')
        # The description may have been quicker than the request: then it is active already.
        assert future.result().success or probe.state() == 'active'
        probe.executor.spin_once(timeout_sec=0.5)
        assert probe.state() in ('inactive', 'active')
        probe.change_state('activate')
        assert_gravity(one.gravity())
        assert probe.change_state('deactivate')
        assert probe.change_state('cleanup')
        one.describe(HEAVY)
        one.is_silent()
        assert probe.state() == 'unconfigured'


def _configure(probe: Probe) -> tuple[Any, str]:
    from lifecycle_msgs.srv import ChangeState
    return ChangeState, probe.topic('~/change_state')


def _configure_request() -> Any:
    from lifecycle_msgs.msg import Transition
    from lifecycle_msgs.srv import ChangeState
    return ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))


# -- where the description comes from ----------------------------------------------------------


def test_a_description_published_before_the_node_starts_is_taken(tmp_path: Path) -> None:
    """Transient local: robot_state_publisher may have been there for hours."""
    with Probe() as early:
        publisher = early.publisher(String, 'robot_description', LATCHED, matched=False)
        publisher.publish(String(data=TWO_LINK))
        with session(tmp_path) as one:
            assert_gravity(one.gravity())


def test_a_node_that_is_early_says_what_it_waits_for_and_starts_by_itself(
        tmp_path: Path) -> None:
    """The log and the diagnostics name the topic; a bad text is not the end of it."""
    with session(tmp_path, {'robot_description_timeout': 0.3}) as one:
        status = one.probe.diagnostics('model')
        assert status.level == WARN
        assert 'waiting for a URDF on the topic /robot_description' in status.message
        one.says('waiting for a URDF on the topic /robot_description')
        assert one.probe.state() == 'unconfigured'
        # With the description come the parameters as they are by then.
        one.probe.set({'gravity': [0.0, 0.0, -1.62]})
        one.describe(GARBAGE)
        one.says('not configured')
        status = one.probe.diagnostics('model', lambda status: status.level == ERROR)
        assert 'XML' in status.message
        assert one.probe.state() == 'unconfigured'
        one.describe(TWO_LINK)
        np.testing.assert_allclose(
            one.gravity().effort, expected(TWO_LINK) * 1.62 / 9.81, rtol=1e-9)
        assert one.probe.diagnostics('model').level == OK
        # After the start it no longer says that it waits.
        warnings = one.node.output().count('waiting for')
        one.probe.diagnostics('model')
        assert one.node.output().count('waiting for') == warnings


def test_without_a_description_configure_fails_in_time_and_says_why(tmp_path: Path) -> None:
    parameters = {'autostart': False, 'robot_description_timeout': 0.5}
    with session(tmp_path, parameters) as one:
        assert not one.probe.change_state('configure')
        assert one.probe.state() == 'unconfigured'
        one.says('no description within 0.5 s')
        one.says('/robot_description')
        status = one.probe.diagnostics('model', lambda status: status.level == ERROR)
        assert 'no description within 0.5 s' in status.message
        # The next attempt may succeed, by the topic or by the parameter.
        one.describe(TWO_LINK)
        one.probe.wait_for(lambda: one.probe.change_state('configure'), what='configured')
        assert one.probe.change_state('activate')
        assert_gravity(one.gravity())


def test_the_parameter_starts_a_node_that_waits_for_the_topic(tmp_path: Path) -> None:
    """Parameters set together with it count from the start."""
    with session(tmp_path) as one:
        one.probe.set({'robot_description': TWO_LINK, 'gravity': [0.0, 0.0, -1.62]})
        np.testing.assert_allclose(
            one.gravity().effort, expected(TWO_LINK) * 1.62 / 9.81, rtol=1e-9)
        # From now on the parameter counts, not the topic.
        one.describe(HEAVY)
        np.testing.assert_allclose(
            one.gravity().effort, expected(TWO_LINK) * 1.62 / 9.81, rtol=1e-9)


@pytest.mark.parametrize(('text', 'reason'), [
    (GARBAGE, 'malformed XML'),
    ('no urdf at all', 'URDF'),
    (TWO_LINK.replace('<mass value="2"/>', '<mass value="-2"/>'), 'mass must be'),
    (SINGULAR, 'singular|positive'),
    ('<robot name="statue"><link name="base"/></robot>', 'no moving joint'),
])
def test_a_bad_description_in_the_parameter_leaves_the_node_unconfigured(
        tmp_path: Path, text: str, reason: str) -> None:
    """It lives, says why, and a good description starts it."""
    with session(tmp_path, {'robot_description': text}) as one:
        one.says('not configured')
        assert re.search(reason, one.node.output()), one.node.output()
        status = one.probe.diagnostics('model', lambda status: status.level == ERROR)
        assert re.search(reason, status.message)
        assert one.probe.state() == 'unconfigured'
        assert not one.probe.change_state('configure')
        one.probe.set({'robot_description': TWO_LINK})
        assert_gravity(one.gravity())


@pytest.mark.parametrize('kind', ['file', 'pipe'])
def test_a_description_of_the_topic_is_never_a_path(tmp_path: Path, kind: str) -> None:
    """Whoever can publish cannot make the node open a file, nor wait for a pipe."""
    path = tmp_path / 'arm.urdf'
    if kind == 'file':
        path.write_text(HEAVY, encoding='utf-8')
    else:
        os.mkfifo(path)
    with session(tmp_path) as one:
        one.describe(str(path))
        one.says('not configured: ')
        assert one.probe.state() == 'unconfigured'
        one.describe(TWO_LINK)
        assert_gravity(one.gravity())
        one.describe(str(path))
        one.says('new description refused')
        assert_gravity(one.gravity())
        if kind == 'pipe':
            with pytest.raises(OSError, match='No such device'):  # nobody reads it
                os.open(path, os.O_WRONLY | os.O_NONBLOCK)


def test_the_parameter_may_be_the_path_of_a_file_at_the_start_only(tmp_path: Path) -> None:
    """A request, which anybody can send, must not choose what is opened."""
    paths = []
    for name, text in (('light', TWO_LINK), ('heavy', HEAVY)):
        paths.append(tmp_path / f'{name}.urdf')
        paths[-1].write_text(text, encoding='utf-8')
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    with session(tmp_path, {'robot_description': str(paths[0])}) as one:
        assert_gravity(one.gravity())
        for path in (paths[1], pipe, tmp_path / 'none.urdf'):
            result = one.probe.try_set({'robot_description': str(path)})
            assert not result.successful and 'at the start only' in result.reason
            assert_gravity(one.gravity())
        with pytest.raises(OSError, match='No such device'):  # nobody reads it
            os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        one.probe.set({'robot_description': HEAVY})
        assert_gravity(one.gravity(), HEAVY)
        assert not one.probe.try_set({'robot_description': str(paths[0])}).successful
        assert_gravity(one.gravity(), HEAVY)


def test_a_parameter_that_does_not_fit_is_named_and_can_be_corrected(tmp_path: Path) -> None:
    """With autostart, the node starts as soon as it can."""
    with session(tmp_path, {'robot_description': TWO_LINK, 'payload.mass': 1.0,
                            'payload.frame': 'no_hand'}) as one:
        one.says('unknown frame "no_hand"')
        assert one.probe.state() == 'unconfigured'
        one.probe.set({'payload.frame': 'tool0'})
        assert one.gravity().effort[1] > expected(TWO_LINK)[1]


# -- a new description at run time -------------------------------------------------------------


def test_new_descriptions_while_it_runs(tmp_path: Path) -> None:
    """Other masses change the numbers, other joints the names; a bad text changes nothing."""
    with session(tmp_path) as one:
        one.describe(TWO_LINK)
        assert_gravity(one.gravity())

        one.describe(HEAVY)
        one.probe.wait_for(
            lambda: np.allclose(one.gravity().effort, expected(HEAVY), rtol=1e-10),
            what='the heavier arm')

        for bad in (GARBAGE, SINGULAR, ''):
            one.describe(bad)
            status = one.probe.diagnostics('model', lambda status: status.level == ERROR)
            assert 'the old one stays in force' in status.message
            assert_gravity(one.gravity(), HEAVY)
            assert one.probe.state() == 'active'
            one.describe(HEAVY)
            one.probe.diagnostics('model', lambda status: status.level == OK)

        one.describe(RENAMED)
        assert_gravity(one.gravity(('hinge1', 'hinge2')))
        one.is_silent()  # joint1 and joint2 are no longer known

        def names_both(status: Any) -> bool:
            one.send()  # diagnostics speak of the last second
            return 'they name joint1, joint2; the arm has hinge1, hinge2' in status.message

        one.probe.diagnostics('joint states', names_both)

        one.describe(text_of('five_bar'))
        message = one.gravity()
        np.testing.assert_allclose(
            message.effort, load('five_bar', 'lagrangian').gravity(Q), rtol=1e-9)
        one.describe(TWO_LINK)
        one.probe.wait_for(
            lambda: np.allclose(one.gravity().effort, expected(TWO_LINK), rtol=1e-10),
            what='the first arm')
        assert one.probe.state() == 'active'


def test_a_new_description_while_inactive_counts_after_activation(tmp_path: Path) -> None:
    with session(tmp_path, {'autostart': False}) as one:
        one.describe(TWO_LINK)
        one.probe.wait_for(lambda: one.probe.change_state('configure'), what='configured')
        one.describe(RENAMED)
        one.says('hinge1')
        assert one.probe.state() == 'inactive'
        assert one.probe.change_state('activate')
        assert_gravity(one.gravity(('hinge1', 'hinge2')))


# -- the self-test -----------------------------------------------------------------------------


def test_a_self_test_that_fails_refuses_to_configure_with_the_reason(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose energy is wrong: the law it violates is named."""
    from rclpy.context import Context
    from rclpy.lifecycle import TransitionCallbackReturn
    from rclpy.parameter import Parameter

    from ros_lagdyn.pinocchio_dynamics import PinocchioDynamics
    from ros_lagdyn.ros_node.dynamics_node import DynamicsNode

    sound = PinocchioDynamics._potential_energy
    context = Context()
    rclpy.init(context=context)
    try:
        node = DynamicsNode(context=context, parameter_overrides=[
            Parameter('robot_description', value=TWO_LINK), Parameter('autostart', value=False)])
        with monkeypatch.context() as patch:
            patch.setattr(PinocchioDynamics, '_potential_energy',
                          lambda self, q: 2.0 * sound(self, q))
            assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
            assert node._fault.startswith('not configured: self-test of "two_link" failed: ')
            assert 'pinocchio violates' in node._fault
            assert node._state == 'unconfigured'
        assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        # A parameter that would need a new model is tested, too, and the old one stays.
        with monkeypatch.context() as patch:
            patch.setattr(PinocchioDynamics, '_potential_energy',
                          lambda self, q: 2.0 * sound(self, q))
            result = node.set_parameters([Parameter('payload.mass', value=1.0)])[0]
            assert not result.successful and 'self-test' in result.reason
            assert node.get_parameter('payload.mass').value == 0.0
        node.destroy_node()
        del node
        gc.collect()  # rclpy keeps a lifecycle node's services until then, for others to see
    finally:
        rclpy.try_shutdown(context=context)


# -- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize('how', ['SIGINT', 'SIGTERM', 'deactivate', 'active_shutdown', 'off'])
def test_the_last_command_is_zero(tmp_path: Path, how: str) -> None:
    """An effort controller would hold the last torque for ever."""
    parameters = {'robot_description': TWO_LINK, 'command.mode': 'gravity',
                  'command.enable_at_start': True, 'command.ramp_time': 0.0,
                  'command.max_slew': [1e12, 1e12], 'command.timeout': 1000.0}
    with session(tmp_path, parameters) as one:
        commands = one.probe.subscribe(Float64MultiArray, '~/command')
        # The first command is zero, wherever the arm is.
        one.probe.wait_for(lambda: one.gravity() and commands and any(commands[-1].data),
                           what='a command')
        np.testing.assert_allclose(commands[-1].data, expected(TWO_LINK), rtol=1e-10)
        if how.startswith('SIG'):
            one.probe.processes.clear()
            one.node.send(getattr(signal, how))
            assert one.node.wait() == 0
        elif how == 'off':
            one.probe.set({'command.mode': 'off'})
        else:
            assert one.probe.change_state(how)
        one.probe.wait_for(lambda: list(commands[-1].data) == [0.0, 0.0], what='the zeros')
        torques = [any(message.data) for message in commands]
        assert torques[::-1].index(True) <= LET_GO / LET_GO_EVERY  # zeros until one is heard
        commands.clear()
        if how == 'off':
            one.gravity()  # is answered as before, without commands
        one.probe.sees_nothing(commands, QUIET)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize('parameters', [
    {}, {'robot_description': TWO_LINK, 'autostart': False}], ids=['waiting', 'unconfigured'])
def test_a_node_that_does_nothing_ends_as_cleanly(
        tmp_path: Path, number: signal.Signals, parameters: dict[str, Any]) -> None:
    with running('dynamics_node', tmp_path, parameters) as node:
        with Probe('/lagdyn', node) as probe:
            assert probe.state() == 'unconfigured'
        node.send(number)
        assert node.wait() == 0


def test_a_node_that_waits_inside_of_configure_can_be_interrupted(tmp_path: Path) -> None:
    """Ctrl-C does not have to wait for robot_description_timeout."""
    parameters = {'autostart': False, 'robot_description_timeout': 60.0}
    with running('dynamics_node', tmp_path, parameters) as node:
        with Probe('/lagdyn', node) as probe:
            client = probe.node.create_client(*_configure(probe))
            probe.wait_for(client.service_is_ready, what='the service')
            client.call_async(_configure_request())
            events = probe.subscribe(TransitionEvent, '~/transition_event', matched=False)
            probe.executor.spin_once(timeout_sec=0.3)
            assert not [event for event in events if event.goal_state.label == 'inactive']
        node.send(signal.SIGINT)
        assert node.wait(5.0) == 0


def test_simulated_time_that_stands_still_stops_nothing(tmp_path: Path) -> None:
    """use_sim_time without a clock: joint states have their own stamps and are answered."""
    with session(tmp_path, {'robot_description': TWO_LINK, 'use_sim_time': True}) as one:
        assert_gravity(one.gravity())
        one.probe.diagnostics('joint states', lambda status: status.level == OK)
        one.probe.wait_for(lambda: 'nothing has come on /clock' in one.node.output(),
                           what='a warning')


# -- the command line --------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-m', 'ros_lagdyn.ros_node.dynamics_node', *arguments],
        capture_output=True, text=True, timeout=30.0, env=os.environ)


@pytest.mark.parametrize('flag', ['--help', '-h'])
def test_help_is_help(flag: str) -> None:
    result = run(flag)
    assert (result.returncode, result.stderr) == (0, '')
    assert result.stdout.startswith('usage: dynamics_node')


@pytest.mark.parametrize(('arguments', 'reason'), [
    (['--no-such-thing'], 'unknown argument "--no-such-thing"'),
    (['--ros-args', '-p', 'engine:=abacus'], 'engine must be one of closed_form'),
    (['--ros-args', '-p', 'markers.rate:=-1.0'], 'markers.rate'),
    (['--ros-args', '-p', 'markers.rate:=fast'], 'markers.rate'),
    (['--ros-args', '-p', 'payload.mass:=heavy'], 'payload.mass'),
    (['--ros-args', '-p', 'gravity:=[0.0, 9.81]'], 'gravity must be 3 numbers'),
    (['--ros-args', '-p', 'cross_check.warn_tolerance:=0.1'], 'cross_check.warn_tolerance'),
    (['--ros-args', '--params-file', '/no/such/file.yaml'], '/no/such/file.yaml'),
    (['--ros-args', '--no-ros-thing'], '--no-ros-thing'),
])
def test_what_is_refused_at_the_start_is_one_sentence(arguments: list[str], reason: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ''
    assert result.stderr.startswith('dynamics_node: ')
    assert reason in result.stderr
    assert result.stderr.count('\n') == 1, result.stderr
