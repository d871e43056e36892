# SPDX-License-Identifier: Apache-2.0
"""A robot driver, the node and a controller, each in a process of its own, for tests of faults.

The driver does what it is told, wrongly if need be. The controller writes down what reaches the
motors, and when: that record is what promises are judged by, see Record.assert_sound.

Import this after `pytest.importorskip('rclpy')`.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ros_graph import DEADLINE, NodeProcess, Probe, write_parameters
from shipped import load, text_of
from std_srvs.srv import SetBool

from ros_lagdyn.command_guard import SOUND_FOR
from ros_lagdyn.ros_node.command_output import TICK

HERE = Path(__file__).resolve().parent
TWO_LINK = text_of('two_link')
Q = (0.4, 0.7)  # [rad], where the driver's arm rests
GRAVITY = load('two_link', 'lagrangian').gravity(Q)  # [Nm], what is to be commanded there

# What a busy machine of two cores may take longer than the parameters say [s]: the one allowance
# of all bounds.
BUSY = 0.8
STALL = 0.15  # [s] without time for a process that wants to run each 0.01 s
SETTLED = 100  # commands in a row that arrived at once
# What may lie between the guard's look at the clock and the time stamp of the command [s].
TO_WIRE = 0.15

# Fast DDS uses shared memory between processes of one host, unless told otherwise, even across
# network namespaces; and a process that is killed leaves its files there.
TRANSPORT = ('env', 'FASTDDS_BUILTIN_TRANSPORTS=UDPv4')
# Before other work of a busy machine, where that is allowed: a driver that gets no time of the
# processor for half a second is a fault that nobody injected.
PRIORITY = ('nice', '-n', '-15') if os.geteuid() == 0 else ()
PREFIX = (*PRIORITY, *TRANSPORT)

# Parameters of the node. Its patience is above any pause that a busy machine makes: what is not
# injected must not happen.
TIMEOUT, FADE, RAMP, HOLD, PATIENCE = 0.4, 0.3, 0.5, 0.5, 0.1  # [s]
MAX_EFFORT = np.array([80.0, 10.0])  # [Nm], of the URDF
MAX_SLEW = np.array([100.0, 10.0])  # [Nm/s]; a leap of the whole torque is 0.25 s of it
PARAMETERS = {
    'command.mode': 'gravity',
    'command.timeout': TIMEOUT,
    'command.fade_time': FADE,
    'command.ramp_time': RAMP,
    'command.hold_time': HOLD,
    'command.max_slew': MAX_SLEW.tolist(),
    'cross_check.patience': PATIENCE,
}
# From the last joint state to the first command that is less [s].
NOTICED = TIMEOUT + TICK + BUSY
# From the first sound joint state to the whole torque [s].
BACK = SOUND_FOR + RAMP + BUSY


OK, WARN, ERROR = range(3)  # levels of a status


class Command(NamedTuple):
    """What reached the motors."""

    at: float  # [s], when it was received
    sent: float  # [s], when it was sent
    torque: np.ndarray  # (2,) [Nm]

    @property
    def is_zero(self) -> bool:
        return not self.torque.any()

    def is_whole(self, torque: Sequence[float] = GRAVITY) -> bool:
        return bool(np.allclose(self.torque, torque, rtol=1e-9))


class Status(NamedTuple):
    """What /diagnostics said."""

    at: float  # [s], when it was received
    name: str
    level: int
    message: str
    values: Mapping[str, str]


class Record:
    """What a controller has written down, read anew whenever it is asked for.

    Attributes:
        commands: since the last call of `forget`.
        statuses: since then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.commands: list[Command] = []
        self.statuses: list[Status] = []

    def forget(self) -> None:
        """Begin with what comes from now on; the last command stays, slew is judged from it."""
        self.look()
        del self.commands[:-1]
        self.statuses.clear()

    def look(self) -> None:
        """Read what is new."""
        with self._path.open('rb') as record:
            record.seek(self._read)
            new = record.read()
        new = new[:new.rfind(b'\n') + 1]
        self._read += len(new)
        for line in new.splitlines():
            entry = json.loads(line)
            if 'torque' in entry:
                self.commands.append(
                    Command(entry['at'], entry['sent'], np.array(entry['torque'])))
            else:
                self.statuses.append(Status(
                    entry['at'], entry['status'], entry['level'], entry['message'],
                    entry['values']))

    def since(self, when: float) -> list[Command]:
        """Return the commands received since a time [s]."""
        self.look()
        return [command for command in self.commands if command.at >= when]

    def longest_gap(self, begin: float, end: float) -> float:
        """Return the longest time [s] without a command between two times."""
        times = [begin, *(command.at for command in self.since(begin) if command.at <= end), end]
        return float(np.diff(times).max())

    def assert_sound(self, max_effort: np.ndarray = MAX_EFFORT) -> None:
        """Assert of all commands what must hold of every command, whatever happens.

        - It is finite and within the limits.
        - It is within the slew rates of all commands before it, but for a stop to zero.
        - After zero it is on a ramp from zero.
        """
        self.look()
        none = np.full(2, -np.inf), np.full(2, np.inf)
        (lowest, highest), zero_at = none, None
        for number, (at, sent, torque) in enumerate(self.commands):
            where = f'command {number}, received at {at}: {torque}'
            assert torque.shape == (2,) and np.isfinite(torque).all(), where
            assert (abs(torque) <= max_effort).all(), where
            if not torque.any():
                zero_at = sent
                lowest, highest = none
            # For all i before: |torque - torque_i| <= max_slew (sent - sent_i + TO_WIRE).
            way, room = MAX_SLEW * sent, MAX_SLEW * TO_WIRE
            assert (torque - way <= highest + room).all(), f'slew: {where}'
            assert (torque + way >= lowest - room).all(), f'slew: {where}'
            lowest = np.maximum(lowest, torque + way)
            highest = np.minimum(highest, torque - way)
            if zero_at is not None:
                share = (sent - zero_at + TO_WIRE) / RAMP
                assert (abs(torque) <= share * _most_gravity()).all(), f'ramp: {where}'


def _most_gravity() -> np.ndarray:
    """Return the largest gravity torques of the arms in these tests (2,) [Nm], and a half more."""
    model = load('two_link', 'lagrangian')
    return 1.5 * abs(model.gravity(np.zeros(2)))


class Graph:
    """A driver, a controller and the node between them, and the person who steers them.

    Attributes:
        node: the process of the node.
        driver: that of the driver.
        record: of the controller.
        probe: calls services of the node.
    """

    def __init__(self, folder: Path, stack: ExitStack, *, topic: str = '/lagdyn/command',
                 has_driver: bool = True, driver_prefix: Sequence[str] = (),
                 controller_prefix: Sequence[str] = ()) -> None:
        """Start driver and controller; all processes end with the stack."""
        self._folder, self._stack, self._driver_prefix = folder, stack, driver_prefix
        self._settings_path = folder / 'driver.json'
        self._serial = 0
        self._next_log = 0
        if has_driver:
            self.drive()
            self.driver = self.start_driver()
        path = folder / f'record_{time.monotonic_ns()}.jsonl'  # of this try alone
        path.touch()
        self.record = Record(path)
        self.controller = self.process(
            HERE / 'controller_stand_in.py', [str(path), topic], prefix=controller_prefix)
        self.node: NodeProcess | None = None
        self._nodes: list[NodeProcess] = []
        self._probe: Probe | None = None

    # -- processes -------------------------------------------------------------------------

    def process(self, script: Path, arguments: Sequence[str], *, prefix: Sequence[str] = (),
                ) -> NodeProcess:
        """Start a Python script in a process of its own."""
        self._next_log += 1
        log = self._folder / f'process_{self._next_log}.log'
        return self.adopt(NodeProcess(
            [*prefix, *PREFIX, sys.executable, str(script), *arguments], log))

    def adopt(self, process: NodeProcess) -> NodeProcess:
        """See to it that a process ends with the others."""
        self._stack.callback(process.kill)
        return process

    def start_driver(self) -> NodeProcess:
        """Start the driver with the settings that are in force."""
        return self.process(
            HERE / 'joint_state_driver.py', [str(self._settings_path)],
            prefix=self._driver_prefix)

    def start_node(self, parameters: Mapping[str, Any] | None = None, *,
                   prefix: Sequence[str] = (), mistake: Sequence[str] = (),
                   arguments: Sequence[str] = ()) -> NodeProcess:
        """Start the node: with a mistake, as failing_node.py takes it, where one is given."""
        self._next_log += 1
        given = {**PARAMETERS, **(parameters or {})}
        path = write_parameters(self._folder, given)
        program = ([str(HERE / 'failing_node.py'), *mistake] if mistake
                   else ['-m', 'ros_lagdyn.ros_node.dynamics_node'])
        self.node = self.adopt(NodeProcess(
            [*prefix, *PREFIX, sys.executable, *program, '--ros-args', '--params-file', str(path),
             *arguments], self._folder / f'node_{self._next_log}.log'))
        self._nodes.append(self.node)
        return self.node

    def end_nodes(self) -> None:
        """Let no node stay, however a test went."""
        for node in self._nodes:
            node.kill()
        self._nodes.clear()

    @property
    def probe(self) -> Probe:
        """Services and topics of the node; a participant that is there only if it is needed."""
        if self._probe is None:
            self._probe = self._stack.enter_context(Probe())
        return self._probe

    # -- what the others do ----------------------------------------------------------------

    def drive(self, **settings: Any) -> float:
        """Let the driver have its default settings but for these; return since when [s].

        The file is replaced as a whole; a driver that runs has taken it when this returns.
        """
        self._serial += 1
        fresh = self._settings_path.with_suffix('.new')
        fresh.write_text(json.dumps({'serial': self._serial, **settings}), encoding='utf-8')
        os.replace(fresh, self._settings_path)
        return self.applied() if self._serial > 1 else 0.0

    def applied(self) -> float:
        """Wait until the driver has taken the settings; return when it did [s]."""
        said = f'applied {self._serial} '

        def found() -> str:
            return next((line for line in self.driver.output().splitlines()
                         if line.startswith(said) and '.' in line), '')

        return float(self.until(found, what=f'the driver to say: {said}').split()[2])

    def matched(self) -> float:
        """Wait until the driver has found the node, and return when it did [s]."""
        def found() -> str:
            return next((line for line in self.driver.output().splitlines(keepends=True)
                         if line.startswith('matched ') and line.endswith('\n')), '')

        return float(self.until(found, what='the driver to find the node').split()[1])

    def enable(self, on: bool = True) -> None:
        """Turn the person's switch."""
        response = self.probe.call(SetBool, '~/enable', SetBool.Request(data=on))
        assert response.success, response.message

    # -- waiting ---------------------------------------------------------------------------

    def until(self, condition: Callable[[], Any], seconds: float = DEADLINE, what: str = ''
              ) -> Any:
        """Wait until a condition is true, and return what it returned."""
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            if time.monotonic() > deadline:
                said = self.node.output() if self.node else ''
                raise AssertionError(
                    f'not within {seconds:.2f} s: {what or "what was waited for"}; last '
                    f'commands {self.record.commands[-3:]}\n{said}')
            time.sleep(0.005)
        return result

    def first(self, condition: Callable[[Command], Any], since: float, what: str) -> Command:
        """Return the first command received since a time that satisfies a condition."""
        return self.until(
            lambda: next(filter(condition, self.record.since(since)), None), what=what)

    def status(self, condition: Callable[[Status], Any], since: float, *,
               part: str = 'lagdyn: command') -> Status:
        """Return the first status received since a time that satisfies a condition."""
        def found() -> Status | None:
            self.record.look()
            return next((status for status in self.record.statuses if status.at >= since
                         and status.name == part and condition(status)), None)

        return self.until(found, what=f'such a status of {part}')

    def follow(self, torque: Sequence[float] = GRAVITY) -> float:
        """Wait for the whole torque; return when it came [s]."""
        self.record.look()
        since = self.record.commands[-1].at if self.record.commands else 0.0
        return self.first(lambda one: one.is_whole(torque), since, 'the whole torque').at

    def settle(self) -> None:
        """Wait until what is sent arrives at once: finding each other takes DDS seconds at times.

        Until then a first command may come, and the next ones a second later.
        """
        def arrives() -> bool:
            self.record.look()
            last = self.record.commands[-SETTLED:]
            return (len(last) == SETTLED and bool(self.record.statuses) and last[-1].is_whole()
                    and max(one.at - one.sent for one in last) < TO_WIRE)

        self.until(arrives, what='commands that arrive at once')

    def passes(self, seconds: float) -> float:
        """Let time pass while nothing must change; return the time now [s]."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, seconds + BUSY)
        return time.monotonic()


class Stalls:
    """A thread that notices when this machine gives a process no time for a while."""

    def __init__(self) -> None:
        self.longest = 0.0  # [s]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(0.01):
            now = time.monotonic()
            self.longest = max(self.longest, now - before)
            before = now


def again_if_the_machine_stalls(make_ready: Callable[[Graph], None] = lambda arm: None
                                ) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: a test that fails while the machine stood still has another try.

    Pauses of a second have been seen where several virtual machines share a processor: to the
    node they are faults, and nobody injected them. What is wrong with the node fails each time.

    Args:
        make_ready: puts a graph, the argument `arm` of the test, right before each try.
    """
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def tried(**given: Any) -> None:
            for tries_left in (2, 1, 0):
                with Stalls() as stalls:
                    try:
                        if 'arm' in given:
                            make_ready(given['arm'])
                        test(**given)
                        if 'arm' in given:
                            given['arm'].record.assert_sound()
                        return
                    except AssertionError as error:
                        if not tries_left or stalls.longest < STALL:
                            raise
                        print(f'again, the machine stood still for {stalls.longest:.2f} s:', error)

        return tried

    return decorate


@contextmanager
def graph(folder: Path, **given: Any) -> Iterator[Graph]:
    """Run driver and controller; what is started with them ends with the block."""
    with ExitStack() as stack:
        yield Graph(folder, stack, **given)


def is_error(reason: str) -> Callable[[Status], bool]:
    """Return whether a status is an error for a reason."""
    return lambda status: status.level == ERROR and status.values['reason'] == reason
