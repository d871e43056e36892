# SPDX-License-Identifier: Apache-2.0
"""A network that is cut for some seconds: docs/faults.md.

Two network namespaces stand for two computers, a pair of virtual interfaces for the cable between
them. There is no way from them to any other network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from fault_graph import (
    BACK,
    BUSY,
    FADE,
    NOTICED,
    TWO_LINK,
    Graph,
    again_if_the_machine_stalls,
    graph,
    is_error,
)
from ros_graph import DEADLINE

from ros_lagdyn.ros_node.command_output import LET_GO

if os.geteuid() != 0:
    pytest.skip('only root may make network namespaces', allow_module_level=True)
if shutil.which('ip') is None:
    pytest.skip('`ip` of iproute2 is not installed', allow_module_level=True)

CUT = 3.0  # [s]
SHORT_CUT = 0.3  # [s], from the signal to the cable's return
ENABLED = {'robot_description': TWO_LINK, 'command.enable_at_start': True}


class Cable:
    """Two computers, `left` and `right`: what a command is prefixed with to run there."""

    def __init__(self, stack: ExitStack) -> None:
        """Make both; they are gone with the stack."""
        sides = [f'lagdyn{os.getpid()}{side}' for side in 'ab']
        for side in sides:
            _ip('netns', 'add', side)
            stack.callback(_ip, 'netns', 'del', side)  # its interfaces go with it
        _ip('link', 'add', 'cable', 'netns', sides[0], 'type', 'veth',
            'peer', 'name', 'cable', 'netns', sides[1])
        for number, side in enumerate(sides, 1):
            _ip('-n', side, 'addr', 'add', f'10.213.77.{number}/24', 'dev', 'cable')
            for interface in ('lo', 'cable'):
                _ip('-n', side, 'link', 'set', interface, 'up')
        # Who starts before the cable carries does not use it.
        deadline = time.monotonic() + DEADLINE
        for side in sides:
            while 'state UP' not in _ip('-n', side, 'link', 'show', 'cable'):
                assert time.monotonic() < deadline, 'the cable never carries'
                time.sleep(0.01)
        # Out there is nobody else whom a wider range of discovery could find.
        self.left, self.right = (
            ('ip', 'netns', 'exec', side, 'env', 'ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET')
            for side in sides)
        self._side = sides[0]

    def cut(self) -> float:
        """Let nothing through; return since when [s]."""
        _ip('-n', self._side, 'link', 'set', 'cable', 'down')
        return time.monotonic()

    def mend(self) -> float:
        """Let everything through again; return since when [s]."""
        _ip('-n', self._side, 'link', 'set', 'cable', 'up')
        return time.monotonic()


def _ip(*arguments: str) -> str:
    return subprocess.run(
        ('ip', *arguments), check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.fixture(scope='module')
def cable() -> Iterator[Cable]:
    """Lay the cable."""
    with ExitStack() as stack:
        try:
            yield Cable(stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f'no network namespaces here: {error}')


def started(one: Graph, cable: Cable) -> None:
    one.start_node(ENABLED, prefix=cable.left)
    one.settle()
    one.record.forget()


@again_if_the_machine_stalls()
def test_traffic_that_is_cut_and_restored(cable: Cable, tmp_path: Path) -> None:
    """Without joint states the command fades; they come again, and so does the torque."""
    with graph(tmp_path, driver_prefix=cable.right, controller_prefix=cable.left) as one:
        started(one, cable)
        since = cable.cut()
        zero = one.first(lambda command: command.is_zero, since, 'zero')
        assert zero.at - since < NOTICED + FADE
        assert one.status(is_error('stale'), since).at - since < NOTICED
        now = one.passes(max(0.0, since + CUT - time.monotonic()))
        assert all(command.is_zero for command in one.record.since(zero.at))
        assert one.record.longest_gap(zero.at, now) < BUSY
        mended = cable.mend()
        assert one.follow() - mended < BACK
        assert one.node.stop() == 0
        one.record.assert_sound()
        assert one.record.commands[-1].is_zero


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM], ids=['SIGINT', 'SIGTERM'])
@again_if_the_machine_stalls()
def test_the_last_zero_survives_a_short_cut(
        cable: Cable, tmp_path: Path, number: signal.Signals) -> None:
    """The controller cannot be reached when the node is to end, but a moment later it can."""
    with graph(tmp_path, driver_prefix=cable.left, controller_prefix=cable.right) as one:
        started(one, cable)
        since = cable.cut()
        one.node.send(number)
        one.passes(SHORT_CUT)
        cable.mend()
        assert one.node.wait(LET_GO + BUSY) == 0
        one.first(lambda command: command.is_zero, since, 'zero')
        assert one.record.commands[-1].is_zero
        one.record.assert_sound()


@again_if_the_machine_stalls()
def test_a_cut_does_not_keep_the_node_from_ending(cable: Cable, tmp_path: Path) -> None:
    """Where nobody can hear the last zero it gives up: the controller keeps what it has."""
    with graph(tmp_path, driver_prefix=cable.left, controller_prefix=cable.right) as one:
        started(one, cable)
        cable.cut()
        try:
            one.node.send(signal.SIGTERM)
            assert one.node.wait(LET_GO + BUSY) == 0
        finally:
            cable.mend()
        one.record.assert_sound()
