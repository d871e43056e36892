# SPDX-License-Identifier: Apache-2.0
"""Hostile messages: a sample of scripts/fuzz in this process, and thousands over DDS."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import load, text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no messages to send')

from fuzz.hostile import SECOND, STEP, Hostile, Source, is_hopeless, smallest
from fuzz.messages import run
from fuzz.session import Session, ros
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import (
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.serialization import serialize_message
from ros_graph import DEADLINE, NodeProcess, Probe, joint_state, running, same, stamp_of, values_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS
from ros_lagdyn.ros_node.pipeline import Pipeline

ARM = 'two_link'
JOINTS = ('joint1', 'joint2')
SAMPLE = 30_000  # messages in this process
OVER_DDS = 10_000
BATCH = 4  # joint states between two valid ones: fewer than the node's queue holds
WARM = 100  # batches until every kind of message has been there
# A message that stays behind takes 500 bytes at least, so 10,000 of them 5 MB.
FLAT = 3e6  # [bytes]
TOPICS = {
    '~/inverse_dynamics': JointState, '~/gravity_compensation': JointState,
    '~/coriolis': JointState, '~/residual': JointState, '~/mass_matrix': Float64MultiArray,
    '~/command': Float64MultiArray}


OURS = {spec.name for spec in NODE_PARAMETERS}


_seen: list[str] | None = None
PROCESSES = ('os.exec', 'os.spawn', 'os.posix_spawn', 'os.system', 'os.fork', 'subprocess',
             'os.remove', 'os.rename', 'socket', 'urllib', 'http', 'pty')


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event == 'open' and isinstance(arguments[0], str):
        _seen.append(f'open {arguments[0]}')
    elif event.startswith(PROCESSES):
        _seen.append(event)


sys.addaudithook(_audit)  # cannot be taken away


@contextmanager
def audited() -> Iterator[list[str]]:
    """Note the files that Python opens or removes, and processes and sockets that it makes."""
    global _seen
    _seen = seen = []
    try:
        yield seen
    finally:
        _seen = None


# -- in this process ---------------------------------------------------------------------------


def test_a_sample_of_hostile_messages_in_this_process() -> None:
    """Real callbacks, caught outputs: see fuzz/session.py for what is judged."""
    run(1, seed=0)  # what is imported when the first node starts
    with audited() as seen:
        result = run(SAMPLE, seed=20261118, session=SAMPLE // 8)
    assert not result.fault, result.fault
    assert not [event for event in seen if not event.startswith('open ')]
    opened = {Path(event.removeprefix('open ')) for event in seen} - {Path('/proc/self/statm')}
    # The arms of the sessions, and code that is imported late.
    assert {path.suffix for path in opened} <= {'.urdf', '.py', '.pyc', '.so'}, opened
    assert result.sent >= SAMPLE
    for kind in ('joint states refused', 'joint states answered', 'references refused',
                 'wrenches refused', 'requests', 'commands of torque', 'valid joint states'):
        assert result.counts[kind] > 100, result.counts


@pytest.mark.parametrize('fault', ['gravity', 'not finite', 'too much', 'raises', 'unasked'])
def test_the_fuzzer_finds_what_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is broken on purpose is found out, and the fault shown by a few steps."""
    sound = Pipeline._answer

    def broken(self: Any, *arguments: Any, **more: Any) -> Any:
        if fault == 'raises':
            return 1 / 0
        asked = sound(self, *arguments, **more)
        publish = self.outputs._publish
        if fault == 'gravity':
            message = self.outputs._gravity.message
            message.effort[0] += 1e-6
            publish['~/gravity_compensation'](message)
        elif fault == 'not finite':
            message = self.outputs._coriolis.message
            message.effort[0] = float('nan')
            publish['~/coriolis'](message)
        elif fault == 'too much':
            publish['~/command'](Float64MultiArray(data=[1e9] * len(self.table.joints)))
        return asked

    monkeypatch.setattr(Pipeline, '_answer', broken)
    if fault == 'unasked':
        monkeypatch.setattr(Pipeline, '_answer', sound)
        put = Pipeline._put
        monkeypatch.setattr(Pipeline, '_put', lambda *arguments: put(*arguments) or True)
    result = run(2000, seed=1)
    assert result.fault
    assert 'bytes.fromhex' in result.fault


def test_the_smallest_fault_is_found() -> None:
    steps = [bytes([number]) for number in range(50)]
    needed = [bytes([7]), bytes([30])]
    assert smallest(steps, lambda some: all(one in some for one in needed)) == needed


def test_equal_bytes_make_equal_messages() -> None:
    data = [random.Random(number).randbytes(STEP) for number in range(200)]
    made = [[Hostile(JOINTS, ['base_link'], wire=True).joint_state(Source(one), SECOND)
             for one in data] for _ in range(2)]
    assert list(map(str, made[0])) == list(map(str, made[1]))
    assert sum(is_hopeless(one, JOINTS) for one in made[0]) > 50


def test_names_that_are_no_text_are_only_refused() -> None:
    """No network brings them, but a node in the same process may."""
    with ros() as context:
        session = Session(context, text_of(ARM), bytes(STEP))
        for names in ([None, 5], [b'joint1'], [['joint1']], [{}], ['\ud800']):
            assert not session._answer(JointState(name=names, position=[0.0] * len(names)))
        session._report()
        session.close()


def test_what_many_names_leave_behind_is_little() -> None:
    """Neither memory nor diagnostics keep megabytes of names that are none of the arm's."""
    with ros() as context:
        session = Session(context, text_of(ARM), bytes(STEP))
        for number in range(20):
            names = [f'{"x" * 500_000}{number}', *JOINTS]
            assert session._answer(JointState(name=names, position=[0.0] * 3))
            assert not session._answer(JointState(name=names[:1], position=[0.0]))
        session._report()  # raises for diagnostics that are too long
        assert sum(map(len, session.node._pipeline.table.unknown_names)) < 5000
        kept = session.node._pipeline.table._layouts
        assert sum(len(name) for names in kept for name in names) < 1_000_000
        session.close()


def test_a_fault_of_our_own_is_no_bad_request() -> None:
    """It goes on and ends the node, with zeros; only what rclpy raises by itself is refused."""
    def broken(values: Any) -> None:
        raise ValueError('a mistake')

    with ros() as context:
        session = Session(context, text_of(ARM), bytes(STEP))
        session.node._declared.accept = broken
        request = SetParameters.Request(parameters=[parameter('tool_frame', 4)])
        with pytest.raises(ValueError, match='a mistake'):
            session._call('set_parameters', request)
        request.parameters[0].value.type = 200
        assert not session._call('set_parameters', request).results
        session.close()


# -- requests ----------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    """One node, to which all is sent."""
    folder = tmp_path_factory.mktemp('fuzz')
    parameters = {
        'robot_description': text_of(ARM), 'acceleration.source': 'zero',
        'external_wrench.enabled': True, 'command.mode': 'inverse_dynamics',
        'command.enable_at_start': True, 'command.ramp_time': 0.0,
        # What is sent in between is no motion that the guard would follow.
        'command.velocity_factor': 1e6}
    with running('dynamics_node', folder, parameters) as process, Probe(
            '/lagdyn', process) as probe:
        probe.wait_for_state('active')
        yield Robot(process, probe)


class Robot:
    """A node in a process of its own, what it publishes, and valid joint states for it."""

    def __init__(self, process: NodeProcess, probe: Probe) -> None:
        """Listen and speak."""
        self.process, self.probe = process, probe
        self.inboxes = {topic: probe.subscribe(kind, topic) for topic, kind in TOPICS.items()}
        self.states = probe.publisher(JointState, 'joint_states')
        self.model = load(ARM, 'lagrangian')  # not the node's engines
        self.most = np.array([joint.limit.effort for joint in self.model.arm.independent_joints])
        self.random = np.random.default_rng(5)
        self.outputs = 0

    @property
    def memory(self) -> float:
        """What the process has in memory [bytes]."""
        statm = Path(f'/proc/{self.process.process.pid}/statm').read_text(encoding='ascii')
        return float(statm.split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def answers_correctly(self) -> None:
        """Send valid joint states until one is answered, and compare; judge all outputs."""
        q, v = self.random.uniform(-1.0, 1.0, (2, 2))
        end = time.monotonic() + DEADLINE
        sent: set[int] = set()
        while True:
            # Stamps that were ahead make it refuse four in a row, or some joints of them.
            stamp = time.time_ns()
            sent.add(stamp)
            self.states.publish(joint_state(JOINTS, q, v, [1.0, 1.0], stamp=stamp))
            if self.probe._until(lambda: self._answered(sent, q), 0.02):
                break
            assert time.monotonic() < end, 'no answer' + self.probe._outputs()
        M, C, g = self.model.all_terms(q, v)
        last = {topic: inbox[-1] for topic, inbox in self.inboxes.items() if inbox}
        same(last['~/gravity_compensation'].effort, g)
        same(last['~/coriolis'].effort, C @ v)
        same(np.reshape(last['~/mass_matrix'].data, (2, 2)), M)
        self.judge()

    def _answered(self, sent: set[int], q: Any) -> bool:
        """Say whether the last answer, of which every part has come, is one to those sent."""
        if not self.inboxes['~/inverse_dynamics'] or (
                list(self.inboxes['~/inverse_dynamics'][-1].position) != q.tolist()):
            return False
        stamps = [stamp_of(self.inboxes[topic][-1]) if self.inboxes[topic] else 0 for topic in (
            '~/inverse_dynamics', '~/gravity_compensation', '~/coriolis', '~/residual')]
        counts = {len(self.inboxes[topic]) for topic in TOPICS
                  if topic not in ('~/command', '~/residual')}
        return len(counts) == 1 and stamps[0] in sent and len(set(stamps)) == 1

    def judge(self) -> None:
        """Judge what has been published since the last time, and forget it."""
        for topic, inbox in self.inboxes.items():
            for message in inbox:
                numbers = list(message.data) if topic in ('~/command', '~/mass_matrix') else [
                    *message.position, *message.velocity, *message.effort]
                assert all(map(isfinite, numbers)), f'{topic}: {message}'
                if topic == '~/command':
                    assert (abs(np.array(numbers)) <= self.most).all(), message
            self.outputs += len(inbox)
            inbox.clear()


def parameter(name: str, kind: int, **values: Any) -> Parameter:
    return Parameter(name=name, value=ParameterValue(type=kind, **values))


def hostile_requests() -> Iterator[tuple[Any, str, Any]]:
    """Yield type, name and request; none of them may change anything or end the node."""
    for kind in (10, 99, 200, 255):
        for name in ('gravity', '', 'use_sim_time', 'nothing'):
            yield SetParameters, 'set_parameters', SetParameters.Request(
                parameters=[parameter(name, kind)])
            yield SetParametersAtomically, 'set_parameters_atomically', (
                SetParametersAtomically.Request(parameters=[
                    parameter('payload.mass', 3, double_value=1.0), parameter(name, kind)]))
    for name in ('use_sim_time', 'robot_description', 'x' * 100_000):
        yield SetParameters, 'set_parameters', SetParameters.Request(
            parameters=[parameter(name, 4, string_value='/etc/passwd' * 1000)])
    names = ['gravity', '', 'x' * 100_000, *['nothing'] * 1000]
    yield GetParameters, 'get_parameters', GetParameters.Request(names=names)
    yield ListParameters, 'list_parameters', ListParameters.Request(
        prefixes=names, depth=2**64 - 1)
    for number, label in ((200, ''), (0, 'nothing'), (3, 'x' * 100_000), (0, ''), (1, '')):
        request = ChangeState.Request()
        request.transition.id, request.transition.label = number, label
        yield ChangeState, 'change_state', request


def test_no_request_ends_the_node(robot: Robot) -> None:
    """Where rclpy itself raises, the request is refused; everything stays as it was."""
    before = robot.probe.get('gravity', 'payload.mass', 'robot_description')
    for kind, name, request in hostile_requests():
        response = robot.probe.call(kind, f'~/{name}', request)
        results = list(getattr(response, 'results', [getattr(response, 'result', None)]))
        assert not any(getattr(result, 'successful', False) for result in results), request
        assert not getattr(response, 'success', False), request
    assert robot.probe.get('gravity', 'payload.mass', 'robot_description') == before
    assert robot.probe.state() == 'active'
    robot.answers_correctly()


def test_random_requests_do_not_end_the_node(robot: Robot) -> None:
    """Afterwards it answers, once what may have changed is as it was."""
    names = [name for name in robot.probe.call(
        ListParameters, '~/list_parameters', ListParameters.Request()).result.names]
    before = dict(zip(names, robot.probe.get(*names), strict=True))
    hostile = Hostile(JOINTS, list(robot.model.arm.frames), wire=True)
    kinds = {kind.__name__: kind for kind in (GetParameters, ListParameters, SetParameters,
                                              SetParametersAtomically)}
    generator, sent = random.Random(3), 0
    while sent < 150:
        name, request = hostile.request(Source(generator.randbytes(STEP)))
        kind = kinds.get(type(request).__qualname__.split('_')[0])
        if kind is not None:
            robot.probe.call(kind, f'~/{name}', request)
            sent += 1
            robot.judge()
    robot.probe.set({name: value for name, value in before.items()
                     if name in OURS and value != [] and name != 'autostart'
                     and robot.probe.get(name) != [value]})
    robot.answers_correctly()


def test_the_simulator_survives_requests_as_well(tmp_path: Path) -> None:
    """It shares the mend; its services of the lifecycle do not exist."""
    with running('arm_simulator', tmp_path, {'robot_description': text_of(ARM)}) as process, Probe(
            '/arm_simulator', process) as probe:
        states = probe.subscribe(JointState, 'joint_states')
        for kind, name, request in hostile_requests():
            if kind is not ChangeState and 'payload' not in str(request):
                probe.call(kind, f'~/{name}', request)
        probe.first(states)


BARE_NODE = """
import sys, rclpy
rclpy.init()
node = rclpy.create_node('bare')
print('ready', flush=True)
sys.stdin.read()
"""


def sockets(pid: int) -> Counter[str]:
    """Return how many sockets of each kind a process has."""
    inodes = set()
    for link in Path(f'/proc/{pid}/fd').iterdir():
        with suppress(OSError):
            inodes.add(re.sub(r'\D', '', os.readlink(link)))
    found: Counter[str] = Counter()
    for kind in ('tcp', 'tcp6', 'udp', 'udp6'):
        with suppress(FileNotFoundError):  # a machine without IPv6
            lines = Path(f'/proc/{pid}/net/{kind}').read_text(encoding='ascii').splitlines()[1:]
            found[kind] += sum(line.split()[9] in inodes for line in lines)
    return +found


def test_the_node_has_no_sockets_but_those_of_ros(robot: Robot) -> None:
    """As many of each kind as a node that does nothing."""
    with subprocess.Popen([sys.executable, '-c', BARE_NODE], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as bare:
        assert bare.stdout is not None and bare.stdin is not None
        assert bare.stdout.readline() == b'ready\n'
        expected = sockets(bare.pid)
        bare.stdin.close()
        assert bare.wait(DEADLINE) == 0
    assert expected
    assert sockets(robot.process.process.pid) == expected


# -- over DDS ----------------------------------------------------------------------------------


def spoilt(message: Any, source: Source) -> bytes:
    """Return the bytes of a message with some of them changed, or cut off."""
    data = bytearray(serialize_message(message))
    for _ in range(source.below(4)):
        data[source.below(len(data))] = source.pick((0, 1, 127, 128, 255))
    if source.below(2):
        del data[4 + source.below(len(data) - 3):]
    return bytes(data)


def test_ten_thousand_hostile_messages_over_dds(robot: Robot) -> None:
    """All outputs are finite, valid joint states in between are answered, memory is flat."""
    probe = robot.probe
    references = probe.publisher(JointTrajectory, '~/reference')
    wrenches = probe.publisher(WrenchStamped, '~/external_wrench')
    descriptions = probe.publisher(String, 'robot_description', matched=False)
    hostile = Hostile(JOINTS, list(robot.model.arm.frames), wire=True)
    generator = random.Random(7)
    sent = batches = hopeless = 0
    refused_before = refused(probe)
    at_first = 0.0
    while sent < OVER_DDS:
        for make, publisher, count in ((hostile.joint_state, robot.states, BATCH),
                                       (hostile.reference, references, 2),
                                       (hostile.wrench, wrenches, 2)):
            for _ in range(count):
                source = Source(generator.randbytes(STEP))
                message = make(source, time.time_ns())
                is_raw = source.one_in(8)
                publisher.publish(spoilt(message, source) if is_raw else message)
                sent += 1
                hopeless += (not is_raw and make == hostile.joint_state
                             and is_hopeless(message, JOINTS))
        if batches % 100 == 0:
            descriptions.publish(String(data='/etc/passwd'))
        batches += 1
        robot.answers_correctly()
        if batches == WARM:
            at_first = robot.memory
    assert robot.outputs > OVER_DDS
    # They did come there, but for some that best effort may lose.
    assert refused(probe) - refused_before > 0.5 * hopeless
    assert robot.memory - at_first < FLAT
    enabled = probe.call(SetBool, '~/enable', SetBool.Request(data=False))
    assert enabled.success
    probe.wait_for(lambda: robot.inboxes['~/command'] and not any(
        robot.inboxes['~/command'][-1].data), what='a last command of zeros')


def refused(probe: Probe) -> int:
    """Return how many joint states have been refused so far."""
    values = values_of(probe.diagnostics('joint states'))
    return sum(int(count) for key, count in values.items()
               if key.startswith('refused: ') and key.split()[1] not in (
                   'reference', 'external_wrench'))
