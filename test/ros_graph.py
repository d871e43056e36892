# SPDX-License-Identifier: Apache-2.0
"""A real ROS graph for tests: nodes in processes of their own, and a probe on the other side.

Import this after `pytest.importorskip('rclpy')`. Importing it puts this pytest process, and every
process it starts, into a ROS domain of its own on this host.

Nothing here sleeps: what is waited for is an event, with a deadline.
"""

from __future__ import annotations

import copy
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import rclpy
import yaml
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import GetParameters, SetParameters, SetParametersAtomically
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

DEADLINE = 20.0  # [s], far above what anything takes on an idle machine
STOP_DEADLINE = 10.0  # [s], from SIGINT to the end of a process
RETRY = 1.0  # [s], after which a message that best effort may have dropped is sent again
SECOND = 1_000_000_000  # [ns]
ROUNDING = 1e-11  # relative: engines that differ by rounding alone stay below 1e-12

RELIABLE = QoSProfile(depth=100)
BEST_EFFORT = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
TRANSITIONS = {
    'configure': Transition.TRANSITION_CONFIGURE,
    'cleanup': Transition.TRANSITION_CLEANUP,
    'activate': Transition.TRANSITION_ACTIVATE,
    'deactivate': Transition.TRANSITION_DEACTIVATE,
    'unconfigured_shutdown': Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
    'inactive_shutdown': Transition.TRANSITION_INACTIVE_SHUTDOWN,
    'active_shutdown': Transition.TRANSITION_ACTIVE_SHUTDOWN,
}


def _own_domain() -> int:
    """Return a ROS domain that no other test run on this host has: its lock is ours till we end.

    From 215 to 232 their ports are above those that Linux gives to clients; demo and benchmarks
    use domains below.
    """
    for domain in range(215, 233):
        try:
            lock = (Path(tempfile.gettempdir()) / f'ros_lagdyn_domain_{domain}').open('w')
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        _locks.append(lock)
        return domain
    raise RuntimeError('the ROS domains from 215 to 232 are all in use by other test runs')


_locks: list[IO[str]] = []
# Before rclpy.init, which reads them.
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
os.environ['ROS_DOMAIN_ID'] = str(_own_domain())


# -- messages ----------------------------------------------------------------------------------


def time_of(stamp_ns: int) -> Time:
    """Return a time stamp [ns] as a message."""
    return Time(sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND)


def stamp_of(message: Any) -> int:
    """Return the time stamp of a message with a header [ns]."""
    return int(message.header.stamp.sec * SECOND + message.header.stamp.nanosec)


def joint_state(
    names: Sequence[str],
    position: Iterable[float] = (),
    velocity: Iterable[float] = (),
    effort: Iterable[float] = (),
    *,
    stamp: int = 0,
) -> JointState:
    """Return a joint state with a stamp [ns]; 0 leaves the stamp unset."""
    message = JointState(
        name=list(names),
        position=[float(number) for number in position],
        velocity=[float(number) for number in velocity],
        effort=[float(number) for number in effort])
    message.header.stamp = time_of(stamp)
    return message


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """Return the values of a diagnostic status."""
    return {entry.key: entry.value for entry in status.values}


def same(found: Any, expected: Any) -> None:
    """Assert that numbers are equal but for rounding, relative to the largest of them."""
    expected = np.asarray(expected)
    scale = max(1.0, abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=ROUNDING * scale)


class Stamps:
    """Time stamps [ns] that never repeat and are near now, as a robot sends them."""

    def __init__(self, start: int | None = None) -> None:
        """Start at a time [ns], by default now."""
        self._last = time.time_ns() if start is None else start

    def __call__(self, step: int = 2_000_000) -> int:
        """Return a stamp `step` nanoseconds after the last one."""
        self._last += step
        return self._last


# -- processes ---------------------------------------------------------------------------------


class NodeProcess:
    """A node that runs in a process of its own, with all that it prints kept in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start a command."""
        self.log = log
        with log.open('wb') as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                preexec_fn=_take_interrupts)

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.log.read_text(encoding='utf-8', errors='replace')

    def send(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def freeze(self) -> None:
        """Stop it, and return once it stands still; SIGCONT lets it go on."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wait(self, seconds: float = STOP_DEADLINE) -> int:
        """Wait until it has ended by itself and return its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f'the process still runs after {seconds} s:\n{self.output()}') from None

    def stop(self) -> int:
        """End it by SIGINT, as Ctrl-C does, and return its exit code; kill it if it stays."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)  # a stopped process hears nothing
            self.send(signal.SIGINT)
        try:
            return self.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _take_interrupts() -> None:
    """Undo what a background job inherits from its shell: that it ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def write_parameters(folder: Path, parameters: Mapping[str, Any]) -> Path:
    """Write a parameter file for nodes of any name and return its path."""
    path = folder / f'parameters_{time.monotonic_ns()}.yaml'
    path.write_text(
        yaml.safe_dump({'/**': {'ros__parameters': dict(parameters)}}), encoding='utf-8')
    return path


@contextmanager
def running(
    module: str,
    folder: Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    namespace: str = '',
    arguments: Sequence[str] = (),
    exit_code: int | None = 0,
) -> Iterator[NodeProcess]:
    """Run a node of ros_lagdyn in a process of its own while the block lasts.

    At the end it is stopped by SIGINT; it must end with `exit_code` (None: any) and without a
    traceback in its output.

    Args:
        module: of ros_lagdyn.ros_node, such as 'dynamics_node'.
        folder: where to keep its parameter file and output.
        parameters: its parameters by name; an empty list is left out, as YAML cannot say of
            what type it is.
        namespace: of the node, such as '/left'.
        arguments: more ROS arguments, such as ['-r', 'joint_states:=states'].
        exit_code: that it must end with.
    """
    given = {name: value for name, value in (parameters or {}).items() if value != []}
    command = [sys.executable, '-m', f'ros_lagdyn.ros_node.{module}', '--ros-args']
    if given:
        command += ['--params-file', str(write_parameters(folder, given))]
    if namespace:
        command += ['-r', f'__ns:={namespace}']
    node = NodeProcess([*command, *arguments], folder / f'{module}_{time.monotonic_ns()}.log')
    try:
        yield node
        code = node.stop()
        output = node.output()
        assert exit_code is None or code == exit_code, f'exit code {code}:\n{output}'
        assert 'Traceback' not in output, output
    finally:
        node.kill()


# -- the other side ----------------------------------------------------------------------------


class Probe:
    """A node of this process that talks to nodes in other processes.

    Attributes:
        node: the rclpy node.
        processes: whose output is shown when something does not happen in time.
    """

    def __init__(self, target: str = '/lagdyn', *processes: NodeProcess) -> None:
        """Make the node.

        Args:
            target: full name of the node whose private topics '~/...' and services are meant.
            processes: whose output is shown when something does not happen in time.
        """
        self.target = target
        self.processes = list(processes)
        self.context = Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node(
            'probe', context=self.context, start_parameter_services=False, enable_rosout=False)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._diagnostics: list[DiagnosticArray] | None = None

    def __enter__(self) -> Probe:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def of(self, target: str) -> Probe:
        """Return the same probe for another target; serving one serves both."""
        other = copy.copy(self)
        other.target = target
        return other

    def close(self) -> None:
        """Leave the graph."""
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self.context)

    def topic(self, name: str) -> str:
        """Return the full name of a topic; '~/' stands for the target's own."""
        if name.startswith('~/'):
            return self.target + name[1:]
        if name.startswith('/'):
            return name
        return self.target.rsplit('/', 1)[0] + '/' + name

    # -- waiting ---------------------------------------------------------------------------

    def wait_for(
        self,
        condition: Callable[[], Any],
        seconds: float = DEADLINE,
        what: str = '',
    ) -> Any:
        """Serve the probe until a condition is true, and return what it returned.

        Raises:
            AssertionError: not in time, or a process has ended; says what the processes printed.
        """
        result = self._until(condition, seconds)
        if not result:
            raise AssertionError(
                f'not within {seconds} s: {what or "what was waited for"}' + self._outputs())
        return result

    def _until(self, condition: Callable[[], Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while not (result := condition()) and time.monotonic() < deadline:
            for process in self.processes:
                code = process.process.poll()
                assert code is None, f'a process ended with {code}' + self._outputs()
            self.executor.spin_once(timeout_sec=0.02)
        return result

    def _outputs(self) -> str:
        return ''.join(f'\n--- {process.log.name}\n{process.output()}'
                       for process in self.processes)

    def sees_nothing(self, inbox: list[Any], seconds: float) -> None:
        """Assert that nothing arrives for a while: only for what must not happen."""
        assert not self._until(lambda: inbox, seconds), f'unexpected: {inbox[0]}'

    def first(self, inbox: list[Any], condition: Callable[[Any], Any] = lambda _: True) -> Any:
        """Return the first message from now on that satisfies a condition; drop those before."""
        inbox.clear()

        def found() -> bool:
            while inbox and not condition(inbox[0]):
                del inbox[0]
            return bool(inbox)

        self.wait_for(found, what='such a message')
        return inbox[0]

    def collect(self, inbox: list[Any], seconds: float) -> list[Any]:
        """Return what arrives in the next seconds."""
        inbox.clear()
        self._until(lambda: False, seconds)
        return list(inbox)

    # -- topics ----------------------------------------------------------------------------

    def publisher(self, kind: Any, topic: str, qos: Any = RELIABLE, *, matched: bool = True
                  ) -> Publisher:
        """Return a publisher, once somebody listens."""
        publisher = self.node.create_publisher(kind, self.topic(topic), qos)
        if matched:
            self.wait_for(publisher.get_subscription_count, what=f'a subscriber of {topic}')
        return publisher

    def subscribe(self, kind: Any, topic: str, qos: Any = RELIABLE, *, matched: bool = True
                  ) -> list[Any]:
        """Return the list to which what is published will be appended, once somebody speaks."""
        inbox, _ = self._subscribe(kind, topic, qos, matched)
        return inbox

    def _subscribe(self, kind: Any, topic: str, qos: Any, matched: bool
                   ) -> tuple[list[Any], Subscription]:
        inbox: list[Any] = []
        subscription = self.node.create_subscription(kind, self.topic(topic), inbox.append, qos)
        if matched:
            self.wait_for(subscription.get_publisher_count, what=f'a publisher of {topic}')
        return inbox, subscription

    @contextmanager
    def listening(self, kind: Any, topic: str, qos: Any = RELIABLE) -> Iterator[list[Any]]:
        """Subscribe while the block lasts: what nobody reads still costs time."""
        inbox, subscription = self._subscribe(kind, topic, qos, matched=True)
        try:
            yield inbox
        finally:
            self.node.destroy_subscription(subscription)

    def ask(self, publisher: Publisher, message: Any, answered: Callable[[], Any]) -> Any:
        """Publish until a condition is true and return what it returned.

        Best effort may drop the message; then the same one is sent again. A joint state may
        safely be repeated: a repeated stamp holds the derivatives.
        """
        for _ in range(int(DEADLINE / RETRY)):
            publisher.publish(message)
            if result := self._until(answered, RETRY):
                return result
        return self.wait_for(answered, 0.0, 'an answer')

    def diagnostics(self, part: str, condition: Callable[[DiagnosticStatus], Any] = lambda _: True,
                    seconds: float = DEADLINE) -> DiagnosticStatus:
        """Wait for a status of /diagnostics that satisfies a condition, sent from now on.

        Args:
            part: how the name of the status ends: 'model', 'joint states' or 'cross-check'.
            condition: that the status must satisfy.
            seconds: deadline.
        """
        if self._diagnostics is None:
            self._diagnostics = self.subscribe(DiagnosticArray, '/diagnostics')
        else:
            self.executor.spin_once(timeout_sec=0.0)
        inbox = self._diagnostics
        inbox.clear()
        name = f'{self.target.removeprefix("/")}: {part}'
        last: list[DiagnosticStatus] = []

        def found() -> DiagnosticStatus | None:
            while inbox:
                for status in inbox.pop(0).status:
                    if status.name == name:
                        last[:] = [status]
                        if condition(status):
                            return status
            return None

        if not (result := self._until(found, seconds)):
            raise AssertionError(f'no such status of "{name}" within {seconds} s; the last one '
                                 f'was {last or "never seen"}' + self._outputs())
        return result

    # -- services --------------------------------------------------------------------------

    def call(self, kind: Any, service: str, request: Any, seconds: float = DEADLINE) -> Any:
        """Call a service, '~/' being the target's, and return its response."""
        name = self.topic(service)
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        client = self._clients[name]
        self.wait_for(client.service_is_ready, seconds, f'service {name}')
        future = client.call_async(request)
        self.wait_for(future.done, seconds, f'a response of {name}')
        return future.result()

    def try_set(self, parameters: Mapping[str, Any]) -> SetParametersResult:
        """Set parameters all at once and return what the node said."""
        request = SetParametersAtomically.Request(parameters=_messages(parameters))
        return self.call(SetParametersAtomically, '~/set_parameters_atomically', request).result

    def set(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters all at once; the node must take them."""
        result = self.try_set(parameters)
        assert result.successful, f'{dict(parameters)} refused: {result.reason}'

    def try_set_each(self, parameters: Mapping[str, Any]) -> list[SetParametersResult]:
        """Set parameters one after the other, as `ros2 param set` does."""
        request = SetParameters.Request(parameters=_messages(parameters))
        return list(self.call(SetParameters, '~/set_parameters', request).results)

    def get(self, *names: str) -> list[Any]:
        """Return the values of parameters; arrays as lists."""
        response = self.call(
            GetParameters, '~/get_parameters', GetParameters.Request(names=list(names)))
        values = [parameter_value_to_python(value) for value in response.values]
        return [list(value) if hasattr(value, 'tolist') else value for value in values]

    def state(self) -> str:
        """Return the lifecycle state of the target, such as 'active'."""
        return str(self.call(GetState, '~/get_state', GetState.Request()).current_state.label)

    def wait_for_state(self, label: str, seconds: float = DEADLINE) -> None:
        """Wait until the target is in a lifecycle state."""
        self.wait_for(lambda: self.state() == label, seconds, f'state {label}')

    def change_state(self, transition: str) -> bool:
        """Ask for one of TRANSITIONS and return whether it succeeded."""
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[transition]))
        return bool(self.call(ChangeState, '~/change_state', request).success)


# The type of an empty list cannot be seen: these are lists of numbers, the others of names.
_LISTS_OF_NUMBERS = ('friction.viscous', 'friction.coulomb', 'actuation.matrix', 'gravity',
                     'payload.com', 'initial_position', 'initial_velocity', 'command.max_effort',
                     'command.max_slew')


def _messages(parameters: Mapping[str, Any]) -> list[Any]:
    messages = []
    for name, value in parameters.items():
        kind = None
        if isinstance(value, (list, tuple)) and not len(value):
            kind = (Parameter.Type.DOUBLE_ARRAY if name in _LISTS_OF_NUMBERS
                    else Parameter.Type.STRING_ARRAY)
        if isinstance(value, tuple):
            value = list(value)
        messages.append(Parameter(name, kind, value).to_parameter_msg())
    return messages
