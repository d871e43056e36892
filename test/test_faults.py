# SPDX-License-Identifier: Apache-2.0
"""Faults of joint states, clocks and descriptions, on a real graph: docs/faults.md, row by row.

One driver, one node and one controller, each a process, serve all tests. A test makes a fault and
judges the node by when the controller received which command. At the end of each test all commands
since its begin are looked at: finite, within limits, within slew rates, recoveries from zero.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from fault_graph import (
    BACK,
    BUSY,
    ERROR,
    FADE,
    GRAVITY,
    HOLD,
    NOTICED,
    OK,
    PATIENCE,
    RAMP,
    STALL,
    TWO_LINK,
    Command,
    Graph,
    Q,
    again_if_the_machine_stalls,
    graph,
    is_error,
)
from ros_graph import LATCHED
from shipped import load
from std_msgs.msg import String

from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.ros_node.command_output import LET_GO, LET_GO_EVERY, TICK

HEAVY = TWO_LINK.replace('<mass value="2"/>', '<mass value="3"/>')
RENAMED = re.sub(r'"joint([12])"', r'"hinge\1"', TWO_LINK)
GARBAGE = ('<robot name="nonsense"><link name="base"', '', '\0', '<robot/>', '<a>' * 100_000,
           TWO_LINK.replace('<mass value="2"/>', '<mass value="-2"/>'),
           TWO_LINK.replace('<mass value="2"/>', '<mass value="1e400"/>'))
NEW_MODEL = 0.5  # [s], from a description to its torques
NO_GAP = 0.1  # [s], between two commands while a model is replaced
PERIOD = 0.005  # [s], of the driver's joint states


@pytest.fixture(scope='module')
def running_graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Start all processes; the node has its description from the topic."""
    with graph(tmp_path_factory.mktemp('faults')) as one:
        one.start_node()
        describe = one.probe.publisher(String, 'robot_description', LATCHED)
        one.describe = lambda text: describe.publish(String(data=text))  # type: ignore
        one.describe(TWO_LINK)
        one.probe.wait_for_state('active')
        one.enable()
        one.settle()
        yield one
        assert one.node.stop() == 0
        assert 'Traceback' not in one.node.output()


@pytest.fixture
def arm(running_graph: Graph) -> Iterator[Graph]:
    """Return the graph; no fault ends the node."""
    yield running_graph
    assert running_graph.node.process.poll() is None, running_graph.node.output()


def make_ready(arm: Graph) -> None:
    """Let the node follow, whatever a test has left; all commands from here on are judged."""
    arm.driver.send(signal.SIGCONT)
    if arm.driver.process.poll() is not None:
        arm.driver = arm.start_driver()
    arm.drive()
    arm.describe(TWO_LINK)
    arm.enable()
    arm.follow()
    arm.record.forget()


fault = again_if_the_machine_stalls(make_ready)


@contextmanager
def parameters(arm: Graph, values: Mapping[str, Any]) -> Iterator[None]:
    """Set parameters while the block lasts."""
    before = dict(zip(values, arm.probe.get(*values), strict=True))
    arm.probe.set(values)
    try:
        yield
    finally:
        arm.probe.set(before)


def fades(arm: Graph, since: float, reason: str, within: float) -> float:
    """Assert that a fault is noticed, reported, and faded out in time; return when it was zero.

    Args:
        arm: the graph.
        since: when the fault began [s].
        reason: of the fault.
        within: how long it may take from there to the first smaller command [s].
    """
    begin = arm.first(lambda one: abs(one.torque[0]) < 0.999 * GRAVITY[0], since, 'fading')
    zero = arm.first(lambda one: one.is_zero, since, 'zero')
    assert begin.at - since < within
    assert zero.at - since < within + FADE
    # What the machine did to the moment of the fault it does not do to the fade as well.
    assert FADE - STALL < zero.at - begin.at < FADE + 2.0 * STALL
    assert arm.status(is_error(reason), since).at - since < within
    down = np.array([one.torque for one in arm.record.since(begin.at) if one.at <= zero.at])
    assert (np.diff(abs(down), axis=0) <= 1e-9).all(), 'it fades, and never comes back'
    return zero.at


def stays_zero(arm: Graph, since: float, until: float) -> None:
    """Assert that zeros were sent from one time to another, again and again."""
    commands = [one for one in arm.record.since(since) if one.at <= until]
    assert commands and all(one.is_zero for one in commands)
    assert arm.record.longest_gap(since, until) < BUSY
    if len(commands) > 10:
        assert np.median(np.diff([one.at for one in commands])) < 3.0 * TICK


def is_silent_after(arm: Graph, zero: Command) -> float:
    """Assert that after a zero, repeated until it was heard, nothing comes; return when [s]."""
    arm.passes(0.1)
    count = len(arm.record.since(zero.at))
    now = arm.passes(0.3)
    assert len(arm.record.since(zero.at)) == count <= LET_GO / LET_GO_EVERY
    assert all(one.is_zero for one in arm.record.since(zero.at))
    return now


def recovers(arm: Graph, since: float, torque: Any = GRAVITY) -> None:
    """Assert that the whole torque is back in time, and that the diagnostics say so."""
    commands = arm.record.since(since)
    whole = arm.first(lambda one: one.is_whole(torque), since, 'the whole torque')
    assert whole.at - since < BACK
    # Not before the input was sound for a while, and not without the ramp.
    if commands and commands[0].is_zero:
        assert whole.at - since > RAMP - PERIOD
    arm.status(lambda status: status.level == OK, whole.at)


def goes_on(arm: Graph, since: float, torque: Any = GRAVITY) -> None:
    """Assert that since a time every command was the whole torque, without a gap."""
    commands = arm.record.since(since)
    assert commands and all(one.is_whole(torque) for one in commands)
    assert arm.record.longest_gap(since, time.monotonic()) < BUSY


# -- joint states that do not come ---------------------------------------------------------------


@fault
def test_a_driver_that_is_killed_and_started_again(arm: Graph) -> None:
    killed = time.monotonic()
    arm.driver.send(signal.SIGKILL)
    arm.driver.wait()
    zero = fades(arm, killed, 'stale', NOTICED)
    stays_zero(arm, zero, arm.passes(0.3))
    arm.driver = arm.start_driver()
    recovers(arm, arm.matched())


@fault
def test_a_driver_that_stands_for_a_second(arm: Graph) -> None:
    arm.driver.freeze()
    frozen = time.monotonic()
    zero = fades(arm, frozen, 'stale', NOTICED)
    now = arm.passes(max(0.0, frozen + 1.0 - time.monotonic()))
    stays_zero(arm, zero, now)
    arm.driver.send(signal.SIGCONT)
    recovers(arm, now)


@pytest.mark.parametrize('policy', ['zero', 'hold_gravity'])
@fault
def test_silence_under_every_policy(arm: Graph, policy: str) -> None:
    """Under `fade` it is the silence of the tests above."""
    with parameters(arm, {'command.policy': policy}):
        silent = arm.drive(rate=0.0)
        zero = arm.first(lambda one: one.is_zero, silent, 'zero')
        error = arm.status(is_error('stale'), silent)
        assert error.at - silent < NOTICED
        smaller = [one for one in arm.record.since(silent) if not one.is_whole()]
        if policy == 'zero':
            assert zero.at - silent < NOTICED
            assert smaller[0] is zero, 'at once'
        else:
            assert smaller[0].at - silent < NOTICED + HOLD
            assert zero.at - silent < NOTICED + HOLD + FADE
            # The last joint state is at most a period, or a pause of the driver, before.
            assert smaller[0].at - silent > HOLD
        recovers(arm, arm.drive())


@pytest.mark.parametrize('rate', [1.0, 2.0])
@fault
def test_rates_below_the_timeout_never_let_a_torque_out(arm: Graph, rate: float) -> None:
    """Between two joint states the first is older than command.timeout: never trusted."""
    slow = arm.drive(rate=rate)
    zero = fades(arm, slow, 'stale', NOTICED + 1.0 / rate)
    stays_zero(arm, zero, arm.passes(3.0 / rate))
    recovers(arm, arm.drive())


@pytest.mark.parametrize('rate', [10.0, 50.0, 500.0, 1000.0, 2000.0])
@fault
def test_rates_above_the_timeout_are_followed(arm: Graph, rate: float) -> None:
    since = arm.drive(rate=rate)
    arm.passes(0.7)
    goes_on(arm, since)


# -- joint states that are odd -------------------------------------------------------------------


@pytest.mark.parametrize('settings', [
    {'burst': 10},
    {'burst': 100, 'rate': 1000.0},
    {'jitter': 0.004},
    {'jitter': 0.02, 'reorder': True},
    {'reorder': True},
    {'offset': 100.0},
    {'offset': -0.5},
    {'offset': -100.0},
], ids=str)
@fault
def test_stamps_and_bursts_that_interrupt_nothing(arm: Graph, settings: dict[str, Any]) -> None:
    """What the commands need is fresh joint states, by when they are received."""
    since = arm.drive(**settings)
    arm.passes(0.4)
    back = arm.drive()  # a leap of the clock the other way
    arm.passes(0.2)
    goes_on(arm, since)
    assert back > since


@fault
def test_positions_that_are_no_numbers(arm: Graph) -> None:
    """They are refused as joint states: the good ones become stale."""
    since = arm.drive(position=[float('nan'), Q[1]])
    fades(arm, since, 'stale', NOTICED)
    recovers(arm, arm.drive())


@fault
def test_a_jump_of_position(arm: Graph) -> None:
    """No velocity below its limit brings a joint 2.9 rad further within 0.6 s."""
    there = (3.3, Q[1])
    since = arm.drive(position=there)
    less = arm.first(lambda one: one.torque[0] < 0.999 * GRAVITY[0], since, 'less torque')
    assert less.at - since < PERIOD + BUSY
    assert arm.status(is_error('position_jump'), since).at - since < PERIOD + BUSY
    recovers(arm, since, load('two_link', 'lagrangian').gravity(there))


@fault
def test_a_velocity_above_its_limit(arm: Graph) -> None:
    """The limit is 3 rad/s, and command.velocity_factor is 1.5."""
    since = arm.drive(velocity=[4.4, 0.0])
    arm.passes(0.2)
    goes_on(arm, since)
    since = arm.drive(velocity=[4.6, 0.0])
    zero = fades(arm, since, 'too_fast', PERIOD + BUSY)
    stays_zero(arm, zero, arm.passes(0.2))
    recovers(arm, arm.drive())


@fault
def test_engines_that_disagree_for_longer_than_cross_check_patience(arm: Graph) -> None:
    """With a tolerance of 0, the rounding of one engine is a disagreement with the other."""
    since = time.monotonic()
    with parameters(arm, {'cross_check.warn_tolerance': 0.0, 'cross_check.error_tolerance': 0.0}):
        zero = fades(arm, since, 'cross_check', PATIENCE + PERIOD + BUSY)
        less = next(one for one in arm.record.since(since) if not one.is_whole())
        assert less.at - since > PATIENCE
        stays_zero(arm, zero, arm.passes(0.2))
        agreed = time.monotonic()
    recovers(arm, agreed)


# -- limits and the switch -----------------------------------------------------------------------


@fault
def test_torques_above_the_limits_are_cut(arm: Graph) -> None:
    most = np.array([10.0, 1.0])
    since = time.monotonic()
    with parameters(arm, {'command.max_effort': most.tolist()}):
        cut = arm.first(lambda one: one.is_whole(most), since, 'the largest torque')
        arm.status(lambda status: status.values['saturated'] == 'true', cut.at)
        arm.passes(0.3)
        goes_on(arm, cut.at, most)
    arm.follow()


@fault
def test_the_switch(arm: Graph) -> None:
    """Off: zero, once. On: the ramp from zero."""
    since = time.monotonic()
    arm.enable(False)
    off = time.monotonic()
    zero = arm.first(lambda one: one.is_zero, since, 'zero')
    assert zero.at - off < BUSY
    is_silent_after(arm, zero)
    status = arm.status(lambda status: True, zero.at + 0.1)
    assert (status.level, status.values['state']) == (OK, 'off')
    on = time.monotonic()
    arm.enable()
    recovers(arm, on)
    assert arm.record.since(on)[0].is_zero
    faults = [status for status in arm.record.statuses if status.at > on and status.level == ERROR]
    assert not faults, 'switching on is no fault'


# -- clocks --------------------------------------------------------------------------------------


@fault
def test_simulated_time_that_stops_and_leaps(arm: Graph) -> None:
    """The guard has a steady clock: what counts is that joint states come."""
    with parameters(arm, {'use_sim_time': True}):
        since = arm.drive(clock='runs', clock_time=1000.0)
        arm.passes(0.3)
        arm.drive(clock='stands', clock_time=1000.0)
        arm.passes(0.3)
        arm.drive(clock='runs', clock_time=2000.0)
        arm.passes(0.3)
        arm.drive(clock='runs', clock_time=10.0)
        arm.passes(0.3)
        goes_on(arm, since)
        # Silence is a fault even where the clock stands.
        arm.drive(clock='stands', clock_time=10.0)
        silent = arm.drive(clock='stands', clock_time=10.0, rate=0.0)
        zero = fades(arm, silent, 'stale', NOTICED)
        stays_zero(arm, zero, arm.passes(0.2))
        recovers(arm, arm.drive(clock='stands', clock_time=10.0))
    arm.drive()
    arm.passes(0.2)


# -- descriptions --------------------------------------------------------------------------------


@fault
def test_a_description_with_other_masses(arm: Graph) -> None:
    """Commands go on, and go over to the new gravity at the slew rates."""
    heavier = load_dynamics(HEAVY, 'lagrangian').gravity(Q)
    arm.drive(rate=500.0)
    for text, torque in ((HEAVY, heavier), (TWO_LINK, GRAVITY)):
        since = time.monotonic()
        arm.describe(text)
        whole = arm.first(lambda one: one.is_whole(torque), since, 'the new gravity')  # noqa: B023
        assert whole.at - since < NEW_MODEL + BUSY
        assert arm.record.longest_gap(since, arm.passes(0.1)) < NO_GAP + STALL
        between = np.array([one.torque for one in arm.record.since(since)])
        lower, upper = np.minimum(GRAVITY, heavier), np.maximum(GRAVITY, heavier)
        assert (between >= lower - 1e-9).all() and (between <= upper + 1e-9).all()


@fault
def test_descriptions_that_are_garbage(arm: Graph) -> None:
    """Each is refused, with a reason in the diagnostics; no command is interrupted."""
    arm.drive(rate=500.0)
    begin = time.monotonic()
    for text in GARBAGE:
        since = time.monotonic()
        arm.describe(text)
        refused = arm.status(lambda status: 'the old one stays in force' in status.message,
                             since, part='lagdyn: model')
        assert refused.level == ERROR
    assert arm.record.longest_gap(begin, time.monotonic()) < NO_GAP + STALL
    goes_on(arm, begin)
    arm.describe(TWO_LINK)
    arm.status(lambda status: status.level == OK, time.monotonic(), part='lagdyn: model')


@fault
def test_a_description_with_other_joints(arm: Graph) -> None:
    """It lets go with zeros: nobody has switched on this arm. ~/enable does, with the ramp."""
    for text, joints in ((RENAMED, ('hinge1', 'hinge2')), (TWO_LINK, ('joint1', 'joint2'))):
        arm.follow()
        since = time.monotonic()
        arm.describe(text)
        zero = arm.first(lambda one: one.is_zero, since, 'zero')
        assert zero.at - since < NEW_MODEL + BUSY
        arm.drive(joints=joints)
        now = is_silent_after(arm, zero)
        assert arm.status(lambda status: True, now).values['state'] == 'off'
        on = time.monotonic()
        arm.enable()
        recovers(arm, on)
        assert arm.record.since(on)[0].is_zero


@fault
def test_the_switch_is_served_while_a_large_model_is_built(arm: Graph) -> None:
    """Forty joints take a while; whoever switches off meanwhile does not wait for them.

    In the end they are refused: command.max_slew is of two joints.
    """
    links = ''.join(
        f"""<link name="l{k}"><inertial><mass value="1"/>
        <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
        <joint name="j{k}" type="continuous"><parent link="{f'l{k - 1}' if k else 'base'}"/>
        <child link="l{k}"/><origin xyz="0.1 0 0"/><axis xyz="0 {k % 2} {1 - k % 2}"/></joint>"""
        for k in range(40))
    begin = time.monotonic()
    arm.describe(f'<robot name="forty"><link name="base"/>{links}</robot>')
    arm.passes(0.15)  # it is being built
    asked = time.monotonic()
    arm.enable(False)
    zero = arm.first(lambda one: one.is_zero, asked, 'zero')
    assert zero.at - asked < STALL
    built = arm.status(lambda status: 'one for each of j0' in status.message, asked,
                       part='lagdyn: model')
    assert built.at - begin > 0.15
    assert arm.status(lambda status: True, built.at).values['state'] == 'off'
    assert all(one.is_zero for one in arm.record.since(zero.at))
