# SPDX-License-Identifier: Apache-2.0
"""The demo as users run it, and the pure functions that it is made from."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import SEED, SHIPPED, load

from ros_lagdyn.ros_node import demo, demo_table
from ros_lagdyn.ros_node.demo_table import (
    Seen,
    Style,
    fitted,
    fixed,
    judge,
    plain_line,
    summary,
    table,
)
from ros_lagdyn.shipped_arms import SHIPPED_ARMS, STEMS, ShippedArm

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 40.0  # [s], far above what anything here takes
COMMAND = [sys.executable, '-m', 'ros_lagdyn.ros_node.demo']
CHECK = {
    'mass_matrix': '1e-16', 'coriolis': '0.0', 'gravity': '2e-16', 'torque': '3e-16',
    'warn_tolerance': '1e-09', 'error_tolerance': '1e-06',
    'engine': 'closed_form', 'check_engine': 'pinocchio'}
TRAFFIC = {'rate in [Hz]': '499.6', 'rate out [Hz]': '498.2', 'latency p50 [ms]': '0.412',
           'latency p99 [ms]': '1.237'}
ANSI = re.compile(r'\x1b\[[?0-9;]*[A-Za-z]')

on_a_graph = pytest.mark.skipif(
    find_spec('rclpy') is None, reason='rclpy is not installed: no ROS graph to test on')


def good(n: int = 2) -> Seen:
    """Return what the demo has seen when all is well."""
    rng = np.random.default_rng(SEED)
    seen = Seen(
        stem='two_link', title='planar elbow', joints=tuple(f'joint{i + 1}' for i in range(n)),
        turns=(True,) * n, pose=rng.uniform(-3.0, 3.0, n))
    seen.see_state(seen.pose + 1e-6, np.full(n, 0.5))
    seen.gravity, seen.torque = np.full(n, 22.68734), np.full(n, -2.5)
    seen.mass_matrix = rng.uniform(-300.0, 300.0, (n, n))
    seen.opened = 10.0
    seen.see_check(CHECK, 0, 10.1)
    seen.see_traffic(TRAFFIC)
    seen.end(10.2)
    return seen


# -- the judgement ---------------------------------------------------------------------------


def test_an_arm_that_held_its_pose_with_engines_that_agree_is_no_fault() -> None:
    """The good case passes, so that the others fail for their own reason."""
    assert judge(good()) == []


@pytest.mark.parametrize(('spoil', 'said'), [
    (lambda seen: seen.see_state(np.add(seen.pose, (0, 1.1e-3)), seen.pose), 'joint2 did not'),
    (lambda seen: seen.see_state(np.add(seen.pose, (math.nan, 0)), seen.pose), 'joint1 did not'),
    (lambda seen: seen.see_check({**CHECK, 'gravity': '1e-8'}, 1, 10.2), 'disagree: g by 1.0e-08'),
    (lambda seen: seen.see_check({**CHECK, 'torque': 'inf'}, 2, 10.2), 'disagree: tau by inf'),
    (lambda seen: setattr(seen, 'opened', None), 'brakes never opened'),
    (lambda seen: setattr(seen, 'states', 0), 'no joint states were seen'),
    (lambda seen: setattr(seen, 'checks', 0), 'no cross-check was seen'),
    (lambda seen: seen.end(13.2), 'silent for 3.1 s'),
    (lambda seen: seen.see_check(CHECK, 0, 14.0), 'silent for 3.9 s'),
])
def test_what_went_wrong_once_is_a_fault_to_the_end(
        spoil: Callable[[Seen], Any], said: str) -> None:
    """Good messages afterwards do not make up for a bad one."""
    seen = good()
    spoil(seen)
    if seen.states and seen.checks:
        seen.see_state(seen.pose, np.zeros(2))
        seen.see_check(CHECK, 0, seen.last_check)
    faults = judge(seen)
    assert len(faults) == 1 and said in faults[0]
    text = '\n'.join(summary(seen, 10.0, faults, Style()))
    assert 'FAILED' in text and said in text and 'OK' not in text


@pytest.mark.parametrize('stem', SHIPPED)
def test_the_pose_is_within_the_stops_and_gravity_pulls_at_it(stem: str) -> None:
    """A pose that gravity does not leave would be held by no torque at all."""
    dynamics = load(stem, 'closed_form')
    pose = demo.demo_pose(dynamics.arm)
    limits = [joint.limit for joint in dynamics.arm.independent_joints]
    assert all(limit.lower < q < limit.upper for limit, q in zip(limits, pose, strict=True))
    g = dynamics.gravity(pose)
    a = dynamics.forward_dynamics(pose, np.zeros_like(pose), np.zeros_like(pose))
    assert not np.any(g) or 0.5 * max(abs(a)) * 0.1**2 > 10 * demo_table.HELD  # within 0.1 s


# -- how it looks ----------------------------------------------------------------------------


def test_the_table_shows_every_number() -> None:
    """Joints, torques, M, disagreement with its level, rates, latency and time."""
    seen = good()
    seen.see_check({**CHECK, 'gravity': '2e-8', 'torque': '3e-3'}, 2, 10.2)
    seen.mass_matrix = np.array([[1.25, 0.125], [0.125, -0.00001]])
    lines = table(seen, 5.0, 10.0, Style())
    text = '\n'.join(lines)
    for joint, q in zip(seen.joints, seen.position, strict=True):
        row = next(line for line in lines if line.startswith(f' {joint} '))
        assert row.split()[1:] == [f'{q:.4f}', '0.5000', '22.6873', '-2.5000', '1e-06', 'rad,',
                                   'Nm']
    assert ' joint1           1.2500     0.1250\n' in text
    assert ' joint2           0.1250     0.0000\n' in text  # not -0.0000
    now = next(line for line in lines if line.startswith(' now'))
    assert now.split() == ['now', '1.0e-16', 'OK', '0.0e+00', 'OK', '2.0e-08', 'WARN', '3.0e-03',
                           'ERROR']
    assert '500 Hz in, 498 Hz out, latency p50 0.41 ms, p99 1.24 ms' in text
    assert 'closed_form checked by pinocchio to 1e-09' in lines[0]
    assert '5.0 of 10 s' in lines[-1] and lines[-1].count('#') in (21, 22)
    assert not ANSI.search(text) and text.isascii()


@pytest.mark.parametrize('arm', SHIPPED_ARMS, ids=STEMS)
def test_the_headline_fits(arm: ShippedArm) -> None:
    """The engines always have room, what the arm is only where it fits."""
    seen = good()
    seen.stem, seen.title = arm.stem, arm.title
    headline = table(seen, 1.0, 10.0, Style())[0]
    assert headline.startswith(f' {arm.stem}  ') and len(headline) == 79
    assert headline.endswith('  closed_form checked by pinocchio to 1e-09')


@pytest.mark.parametrize('n', range(1, 8))
def test_the_table_fits_a_terminal_of_80_columns_and_24_rows(n: int) -> None:
    """Up to seven joints, with long names, big numbers and infinite disagreements."""
    seen = good(n)
    seen.joints = tuple(f'left_shoulder_joint_{i + 1}' for i in range(n))
    seen.see_check({**CHECK, 'torque': 'inf', 'gravity': 'nan'}, 2, 10.2)
    seen.gravity = np.full(n, -123456.789)
    colourful = fitted(table(seen, 12.0, 10.0, Style(colour=True, unicode=True)), 24)
    plain = fitted(table(seen, 12.0, 10.0, Style(unicode=True)), 24)
    assert [ANSI.sub('', line).replace('╌', '━') for line in colourful] == [
        line.replace('╌', '━') for line in plain]
    assert len(plain) <= 23 and max(map(len, plain)) <= 79
    assert '10.0 of 10 s' in plain[-1]
    names = [line.split()[0] for line in plain if line.startswith(' left')]
    assert len(set(names)) == n and len(names) == 2 * n  # cut, but still told apart
    assert len([line for line in plain if ' -1.2e+05 ' in line]) == n


def test_before_anything_has_come_the_table_says_so() -> None:
    """Dashes, not zeros."""
    seen = Seen(stem='cartesian', title='two slides', joints=('joint1',), turns=(False,),
                pose=np.zeros(1))
    text = '\n'.join(table(seen, 3.0, 10.0, Style()))
    assert 'start and find each other' in text and '0.0 of 10 s' in text
    assert re.search(r'joint1 +- +- +- +- +-  m, N', text)
    assert 'start and find each other' in plain_line(seen, 3.0)
    assert judge(seen) and '0.0 s without brakes' in summary(seen, 3.0, judge(seen), Style())[1]


def test_blank_lines_go_before_others_where_a_terminal_is_low() -> None:
    """The table never is higher than what can be redrawn in place."""
    assert fitted(['a', '', 'b', '', 'c'], 6) == ['a', '', 'b', '', 'c']
    assert fitted(['a', '', 'b', '', 'c'], 5) == ['a', '', 'b', 'c']
    assert fitted(['a', '', 'b', '', 'c'], 3) == ['a', 'b']
    assert fitted(['a', 'b'], 0) == ['a']


@pytest.mark.parametrize(('value', 'text'), [
    (1.0, '    1.000'), (-0.0, '    0.000'), (-1e-9, '    0.000'), (-999.9991, ' -999.999'),
    (-12345.678, ' -1.2e+04'), (math.nan, '      nan'), (-math.inf, '     -inf')])
def test_numbers_keep_their_column(value: float, text: str) -> None:
    """Nine characters, the first of them blank."""
    assert fixed(value, 9, 3) == text


def test_a_plain_line_and_the_summary_say_the_same_in_short() -> None:
    """For logs: no colours."""
    seen = good()
    line = plain_line(seen, 2.0)
    assert line.startswith('  2.0 s  q ') and 'disagreement 3.0e-16 OK' in line
    assert '500 Hz in, 498 Hz out, 0.41 ms' in line
    text = '\n'.join(summary(seen, 10.0, [], Style()))
    assert '1 joint states, 1 cross-checks' in text and '3.0e-16 at worst' in text
    assert 'moved by 1.0e-06 rad at most' in text and 'p50 0.41 ms, p99 1.24 ms' in text
    assert '10.0 s without brakes' in text and '\nOK: ' in text


class Tty:
    """A stream that is a terminal, or not."""

    encoding = 'utf-8'

    def __init__(self, is_terminal: bool) -> None:
        """Start empty."""
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize(('is_terminal', 'environment', 'live', 'colour'), [
    (True, {'TERM': 'xterm'}, True, True),
    (True, {'TERM': 'xterm', 'NO_COLOR': '1'}, True, False),
    (True, {'TERM': 'dumb'}, False, False),
    (True, {}, False, False),
    (False, {'TERM': 'xterm'}, False, False),
])
def test_a_table_is_drawn_only_where_the_terminal_can(
        is_terminal: bool, environment: dict[str, str], live: bool, colour: bool) -> None:
    """TERM=dumb and pipes get lines; NO_COLOR gets a table without colours."""
    screen = demo_table.Screen(Tty(is_terminal), environment)  # type: ignore[arg-type]
    assert (screen.live, screen.style.colour) == (live, colour)


# -- as a process ----------------------------------------------------------------------------


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a demo on this host, in a domain that it chooses."""
    return {
        **{name: value for name, value in os.environ.items() if name != 'ROS_DOMAIN_ID'},
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'PYTHONPATH': os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]),
        **changes}


def run(*arguments: str, command: list[str] = COMMAND) -> subprocess.CompletedProcess[str]:
    """Run the demo, not on a terminal."""
    return subprocess.run([*command, *arguments], env=environment(), capture_output=True,
                          text=True, timeout=DEADLINE, check=False)


def children_of(parent: int) -> list[int]:
    """Return the pids of a process's children."""
    found = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            # The name of the program, in brackets, may hold anything.
            ppid = stat.read_text().rpartition(')')[2].split()[1]
        except OSError:  # it has ended meanwhile
            continue
        if int(ppid) == parent:
            found.append(int(stat.parent.name))
    return found


def runs(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def wait_for(condition: Callable[[], Any]) -> Any:
    """Return what a condition returns as soon as it holds."""
    deadline = time.monotonic() + DEADLINE
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


@pytest.mark.parametrize(('arguments', 'said'), [
    (['--arm', 'elbow'], 'unknown arm "elbow", known are: ' + ', '.join(STEMS)),
    (['--seconds', '0'], 'must be finite and > 0, got 0'),
    (['--seconds=-1'], 'must be finite and > 0, got -1'),
    (['--seconds', 'nan'], 'must be finite and > 0, got nan'),
    (['--seconds', 'inf'], 'must be finite and > 0, got inf'),
    (['--seconds', 'long'], "invalid seconds value: 'long'"),
    (['two_link'], 'unrecognized arguments: two_link'),
])
def test_bad_arguments_are_refused(
        arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a sentence, before anything is started."""
    with pytest.raises(SystemExit) as ended:
        demo.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_help_of_the_script_needs_no_set_up() -> None:
    """-h works wherever it stands and names every arm, in a moment."""
    ended = run('--arm', 'five_bar', '-h', command=[str(ROOT / 'scripts' / 'demo')])
    assert (ended.returncode, ended.stderr) == (0, '')
    assert ended.stdout.startswith('usage: ./scripts/demo [-h] [--arm STEM] [--seconds S]')
    assert all(stem in ended.stdout for stem in STEMS)


def test_without_ros_one_sentence_says_what_is_missing() -> None:
    """Exit code 2."""
    ended = run(command=[sys.executable, '-c', (
        'import sys; sys.modules["rclpy"] = None\n'
        'from ros_lagdyn.ros_node import demo; sys.exit(demo.main([]))')])
    assert (ended.returncode, ended.stdout) == (2, '')
    assert len(ended.stderr.splitlines()) == 1
    assert 'ROS 2 is missing' in ended.stderr and 'scripts/demo' in ended.stderr


@on_a_graph
@pytest.mark.parametrize('domain', ['x', '-1', '233'])
def test_a_domain_that_cannot_be_is_refused(domain: str) -> None:
    """Exit code 2 and one sentence, before anything is started."""
    ended = subprocess.run(COMMAND, env=environment(ROS_DOMAIN_ID=domain), capture_output=True,
                           text=True, timeout=DEADLINE, check=False)
    assert (ended.returncode, ended.stdout) == (2, '')
    assert ended.stderr == (
        f'demo: ROS_DOMAIN_ID must be a whole number from 0 to 232, got "{domain}"\n')


@on_a_graph
@pytest.mark.parametrize(('stem', 'seconds'), [('two_link', 3), ('five_bar', 1)])
def test_the_arm_is_held_and_a_summary_says_so(stem: str, seconds: int) -> None:
    """Not on a terminal: a line for each second, a summary, no escape sequences, exit code 0."""
    ended = run('--arm', stem, '--seconds', str(seconds))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == '' and '\x1b' not in ended.stdout
    lines = ended.stdout.splitlines()
    assert len([line for line in lines if 'moved' in line and ' s  q ' in line]) >= seconds
    assert lines[-1].startswith('OK: ')
    states, checks = map(int, re.search(
        r'messages +(\d+) joint states, (\d+) cross-checks', ended.stdout).groups())
    # 500 a second, fewer where the machine is busy.
    assert states > 20 * seconds and checks > 20 * seconds
    assert f'{stem}: {seconds}.' in ended.stdout


@on_a_graph
def test_in_a_domain_of_others_the_demo_keeps_to_a_namespace_of_its_own() -> None:
    """Nothing appears on /joint_states or /robot_description, where a real robot may be."""
    from ros_graph import Probe  # sets ROS_DOMAIN_ID

    shared = {'/diagnostics', '/parameter_events', '/rosout'}
    process = subprocess.Popen(
        [*COMMAND, '--seconds', '60'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(ROS_DOMAIN_ID=os.environ['ROS_DOMAIN_ID']))
    try:
        with Probe() as probe:
            assert process.stdout is not None
            while (line := process.stdout.readline()) and 'held by computed torques' not in line:
                pass

            def topics() -> set[str]:
                return {name for name, _ in probe.node.get_topic_names_and_types()}

            own = f'/demo_{process.pid}/'
            expected = {own + name for name in (
                'joint_states', 'robot_description', 'effort_command', 'lagdyn/inverse_dynamics')}
            probe.wait_for(lambda: expected <= topics(), what='the topics of the demo')
            assert {name for name in topics() if not name.startswith(own)} <= shared
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, line + rest


def with_node(*arguments: str) -> list[str]:
    """Return a command that runs the demo with further arguments of dynamics_node."""
    return [sys.executable, '-c', (
        'import sys\n'
        'from ros_lagdyn.ros_node import demo\n'
        'class Child(demo.Child):\n'
        '    def __init__(self, module, *arguments):\n'
        f'        further = {arguments} if module == "dynamics_node" else ()\n'
        '        super().__init__(module, *arguments, *further)\n'
        'demo.Child = Child\n'
        'sys.exit(demo.main())')]


@on_a_graph
def test_torques_that_are_a_little_wrong_do_not_hold_the_arm() -> None:
    """The node is told a gravity 0.5 % too small: friction would hide it, so there is none."""
    ended = run('--seconds', '1', command=with_node('-p', 'gravity:=[0.0, 0.0, -9.76]'))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert 'FAILED: joint1 did not hold its pose' in ended.stdout
    assert 'disagree' not in ended.stdout.splitlines()[-1]


@on_a_graph
def test_a_child_that_dies_is_reported_with_its_last_words() -> None:
    """Exit code 1, without waiting for the end of the time."""
    ended = run(command=with_node('--', '--nonsense'))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert 'FAILED: dynamics_node ended by itself with exit code 2' in ended.stdout
    assert 'unknown argument "--nonsense"' in ended.stdout


@on_a_graph
@pytest.mark.parametrize(('number', 'code'), [
    (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_in_the_middle_leaves_no_process_behind(number: int, code: int) -> None:
    """Whether the demo can clean up or is killed."""
    process = subprocess.Popen(
        [*COMMAND, '--seconds', '60'], env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and ' s  q ' not in line:
            pass
        assert line
        children = children_of(process.pid)
        assert len(children) == 2 and all(map(runs, children))
        process.send_signal(number)
        rest, _ = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    if number == signal.SIGKILL:
        wait_for(lambda: not any(map(runs, children)))
    else:
        assert not any(map(runs, children))
        assert rest.splitlines()[-1] == f'demo: stopped by {signal.Signals(number).name}'
        assert 'Traceback' not in rest and 'was killed' not in rest


@on_a_graph
@pytest.mark.parametrize('interrupted', [False, True])
def test_a_terminal_gets_a_table_in_place_and_its_cursor_back(interrupted: bool) -> None:
    """Ten frames a second drawn over each other; Ctrl-C typed at the terminal ends it cleanly."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(COMMAND[0], [*COMMAND, '--arm', 'spatial_3r', '--seconds',
                               '60' if interrupted else '1'], environment(TERM='xterm'))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    said = b''
    children: list[int] = []
    try:
        while True:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
            if interrupted and not children and b'computed torques alone' in said:
                children = children_of(pid)
                os.write(terminal, b'\x03')
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        pid = 0
    finally:
        os.close(terminal)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    text = said.decode()
    first, *frames = text.split(demo_table.HIDE_CURSOR)
    assert first == ''
    assert code == (130 if interrupted else 0), text
    assert text.endswith(demo_table.WRAP + demo_table.SHOW_CURSOR)
    assert len(frames) >= 5 and all('\x1b[J' in frame for frame in frames)
    before = 0
    for frame in frames:
        drawn = frame.partition('\x1b[J')[0]
        assert (f'\x1b[{before}A' in drawn) == (before > 0)  # over the one before
        before = drawn.count('\n')
    last = ANSI.sub('', frames[-1])
    for part in ('spatial_3r', 'joint3', 'gravity', 'disagreement', 'brakes', 'node', 'time'):
        assert part in last
    assert max(len(line) for line in last.replace('\r', '').split('\n')) <= 80
    if interrupted:
        assert len(children) == 2 and not any(map(runs, children))
        assert 'stopped by SIGINT' in last
    else:
        assert 'OK: the engines agree' in last
