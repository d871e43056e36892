# SPDX-License-Identifier: Apache-2.0
"""Faults of the processes: how the node ends, starts again and meets a second one: docs/faults.md.

A driver and a controller stay; nodes come and go beside them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from shipped import SEED

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from fault_graph import (
    BACK,
    BUSY,
    ERROR,
    TWO_LINK,
    WARN,
    Graph,
    again_if_the_machine_stalls,
    graph,
)
from ros_graph import NodeProcess

from ros_lagdyn.ros_node.command_output import LET_GO

ENABLED = {'robot_description': TWO_LINK, 'command.enable_at_start': True}
END = LET_GO + BUSY  # [s], from a signal to the end
ENDS = {'SIGINT': signal.SIGINT, 'SIGTERM': signal.SIGTERM, 'SIGHUP': signal.SIGHUP}
# Where an exception comes from, and after how many calls of it.
MISTAKES = {
    'answers': ('pipeline:Pipeline._answer', 400),
    'the guard': ('command_output:CommandOutput.update', 400),
    'the tick': ('dynamics_node:DynamicsNode.tick', 1000),
    'diagnostics': ('dynamics_node:DynamicsNode._report', 6),
}
# Of a hundred restarts, how many by which signal.
SIGNALS = (*[signal.SIGINT] * 46, *[signal.SIGTERM] * 46, *[signal.SIGKILL] * 8)
WHOLE_DISK = 4096  # [bytes], of a file system for logs


@pytest.fixture(scope='module')
def lone_graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Start a driver and a controller."""
    with graph(tmp_path_factory.mktemp('processes')) as one:
        one.applied()
        yield one


@pytest.fixture
def arm(lone_graph: Graph) -> Iterator[Graph]:
    """Return the graph; no node stays."""
    yield lone_graph
    lone_graph.end_nodes()


def make_ready(arm: Graph) -> None:
    """Begin without a node, and judge all commands from here on."""
    arm.end_nodes()
    arm.drive()
    arm.record.look()
    arm.record.commands.clear()
    arm.record.statuses.clear()


fault = again_if_the_machine_stalls(make_ready)


def ends_with_zero(arm: Graph, since: float) -> None:
    """Assert that the last command is zero, and that the controller has received it."""
    zero = arm.first(lambda one: one.is_zero, since, 'zero')
    arm.passes(0.1)
    assert arm.record.since(zero.at)[-1].is_zero


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize('how', ENDS)
@fault
def test_a_signal_ends_it_with_zero(arm: Graph, how: str) -> None:
    """A second and a third signal, of an impatient person, change nothing."""
    node = arm.start_node(ENABLED)
    arm.follow()
    since = time.monotonic()
    for _ in range(3):
        node.send(ENDS[how])
    assert node.wait(END) == 0
    ends_with_zero(arm, since)
    assert 'Traceback' not in node.output()


@fault
def test_deactivation_and_cleanup_end_with_zero(arm: Graph) -> None:
    """The publisher is gone right after the zero; it has been delivered all the same."""
    node = arm.start_node(ENABLED)
    for transitions in (('deactivate',), ('cleanup',), ('configure', 'activate'),
                        ('active_shutdown',)):
        if transitions[-1] == 'active_shutdown' or transitions[0] == 'deactivate':
            arm.follow()
            since = time.monotonic()
        for transition in transitions:
            assert arm.probe.change_state(transition)
        if transitions[-1] == 'active_shutdown' or transitions[0] == 'deactivate':
            ends_with_zero(arm, since)
    node.send(signal.SIGTERM)
    assert node.wait(END) == 0


@pytest.mark.parametrize('where', MISTAKES)
@fault
def test_an_exception_in_a_callback_ends_it_with_zero(arm: Graph, where: str) -> None:
    place, calls = MISTAKES[where]
    since = time.monotonic()
    node = arm.start_node({**ENABLED, 'command.ramp_time': 0.1}, mistake=(place, str(calls)))
    arm.first(lambda one: not one.is_zero, since, 'a torque')
    raised = arm.until(lambda: 'a mistake in a callback' in node.output() and time.monotonic())
    assert node.wait(END) == 1
    ends_with_zero(arm, raised - BUSY)


@fault
def test_a_signal_while_it_configures(arm: Graph) -> None:
    """It ends in time, whenever the signal comes; nothing but zero was commanded last."""
    random = Random(SEED)
    for _ in range(6):
        arm.record.commands.clear()
        node = arm.start_node({**ENABLED, 'command.ramp_time': 0.0})
        arm.until(lambda node=node: _handles_sigterm(node), what='its handlers')
        arm.passes(random.uniform(0.0, 0.3))
        node.send(signal.SIGTERM)
        assert node.wait(END) == 0
        arm.passes(0.1)
        arm.record.look()
        assert not arm.record.commands or arm.record.commands[-1].is_zero


def _handles_sigterm(node: NodeProcess) -> bool:
    """Say whether a process has a handler of its own for SIGTERM."""
    status = Path(f'/proc/{node.process.pid}/status').read_text(encoding='ascii')
    caught = next(line for line in status.splitlines() if line.startswith('SigCgt:'))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@fault
def test_a_dead_controller_does_not_keep_it_from_ending(arm: Graph) -> None:
    """Nobody acknowledges the zero. What it hears should it wake later is not promised."""
    node = arm.start_node(ENABLED)
    arm.follow()
    arm.controller.freeze()
    try:
        node.send(signal.SIGINT)
        assert node.wait(END) == 0
    finally:
        arm.controller.send(signal.SIGCONT)


# -- a hundred starts ----------------------------------------------------------------------------


class Restarts:
    """Starts and ends nodes one after the other, beside one driver and one controller."""

    def __init__(self, arm: Graph, signals: Sequence[signal.Signals],
                 arguments: Sequence[str] = ()) -> None:
        self.zeros = self.kills = 0
        self.error: BaseException | None = None
        self._arm, self._signals, self._arguments = arm, signals, arguments
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for number in self._signals:
                self._restart(number)
        except BaseException as error:
            self.error = error

    def _restart(self, number: signal.Signals) -> None:
        arm = self._arm
        since = time.monotonic()
        arm.record.look()
        arm.record.commands.clear()
        node = arm.start_node({**ENABLED, 'command.ramp_time': 0.1}, arguments=self._arguments)
        arm.first(lambda one: not one.is_zero, since, 'a torque')
        assert arm.record.commands[0].is_zero, 'the ramp starts at zero'
        ended = time.monotonic()
        node.send(number)
        code = node.wait(END)
        if number == signal.SIGKILL:
            # Nothing can be sent: the controller holds what it has until the next node ramps.
            self.kills += 1
            return
        assert code == 0
        arm.first(lambda one: one.is_zero, ended, 'zero')
        assert arm.record.commands[-1].is_zero
        self.zeros += 1


@fault
def test_a_hundred_restarts_beside_a_running_controller(
        arm: Graph, tmp_path: Path) -> None:
    """Each node ramps from zero, and each that is not killed leaves the controller with zero."""
    signals = list(SIGNALS)
    Random(SEED).shuffle(signals)
    with graph(tmp_path, topic='/second/lagdyn/command', has_driver=False) as other:
        lanes = [
            Restarts(arm, signals[::2]),
            Restarts(other, signals[1::2],
                     ('-r', '__ns:=/second', '-r', 'joint_states:=/joint_states'))]
        for lane in lanes:
            lane.thread.start()
        for lane in lanes:
            lane.thread.join()
        for lane in lanes:
            if lane.error:
                raise lane.error
    assert sum(lane.kills for lane in lanes) == SIGNALS.count(signal.SIGKILL)
    assert sum(lane.zeros for lane in lanes) == 100 - SIGNALS.count(signal.SIGKILL)


# -- two on one topic ----------------------------------------------------------------------------


@fault
def test_two_nodes_on_one_command_topic(arm: Graph) -> None:
    """Who commands says ERROR and names the other, who does not says WARN."""
    first = arm.start_node(ENABLED)
    arm.follow()
    since = time.monotonic()
    second = arm.start_node(
        {'robot_description': TWO_LINK},
        arguments=('-r', '__node:=other', '-r', '~/command:=/lagdyn/command'))
    found = arm.status(lambda status: status.level == ERROR, since)
    assert found.values['other publishers'] == '/other'
    found = arm.status(lambda status: status.level == WARN and status.values['other publishers'],
                       since, part='other: command')
    assert found.values['other publishers'] == '/lagdyn'
    # Reported every second; by then it has been discovered.
    arm.until(lambda: 'others publish on /lagdyn/command, too: /other' in first.output())
    assert second.stop() == 0
    gone = time.monotonic()
    assert arm.status(lambda status: not status.values['other publishers'], gone
                      ).at - gone < 1.0 + END
    assert first.stop() == 0


# -- a full disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize('when', ['at the start', 'while it runs'])
@fault
def test_a_full_disk_for_logs(arm: Graph, tmp_path: Path, when: str) -> None:
    """A file system of a page, in a mount namespace; it goes on commanding, and logging."""
    if os.geteuid() != 0:
        pytest.skip('only root may mount a small file system')
    disk, fill = tmp_path / 'disk', tmp_path / 'fill'
    disk.mkdir()
    script = (f'mount -t tmpfs -o size={WHOLE_DISK} tmpfs {disk} || exit 77; '
              f'dd if=/dev/zero of={disk}/full bs={WHOLE_DISK} count=2 2>/dev/null; '
              'exec "$@"')
    if when == 'while it runs':
        script = (f'mount -t tmpfs -o size={2 * WHOLE_DISK} tmpfs {disk} || exit 77; '
                  f'(until [ -e {fill} ]; do sleep 0.05; done; '
                  f'dd if=/dev/zero of={disk}/full bs={WHOLE_DISK} count=3) & exec "$@"')
    prefix = ('unshare', '-m', 'sh', '-c', script, 'sh', 'env', f'ROS_LOG_DIR={disk}/log')
    node = arm.start_node(ENABLED, prefix=prefix)
    arm.follow()
    fill.touch()
    since = time.monotonic()
    for _ in range(3):  # each is an error that is logged, and a fault that is over soon
        arm.drive(velocity=[9.0, 0.0])
        arm.first(lambda one: not one.is_whole(), since, 'a fault')
        back = arm.drive()
        assert arm.follow() - back < BACK
    assert arm.record.longest_gap(since, time.monotonic()) < BUSY
    assert node.stop() == 0
    ends_with_zero(arm, since)
    assert 'Traceback' not in node.output()


@fault
def test_no_place_for_logs_at_all(arm: Graph) -> None:
    """A folder that cannot be made is what a disk without a free inode looks like."""
    node = arm.start_node(ENABLED, prefix=('env', 'ROS_LOG_DIR=/proc/nowhere'))
    arm.follow()
    assert 'no log file' in node.output()
    assert node.stop() == 0
