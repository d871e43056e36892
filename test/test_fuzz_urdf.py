# SPDX-License-Identifier: Apache-2.0
"""Malicious URDFs: each is an arm or a LagdynError, in time and memory, and opens nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.urdfs import LITTLE, QUICK, Loader, Mutants
from shipped import ENGINES, text_of
from test_bad_input import BOMB, GOOD, INERTIAL, change, many

from ros_lagdyn.closed_form import compiled
from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.live_model import LiveModel, Settings
from ros_lagdyn.urdf_model import MAX_MOVING_JOINTS

MUTANTS = 400
# Of the machine, not of the arm: what numpy and Pinocchio take when they are imported.
DEADLINE = 60.0  # [s]

LINK = '<link name="link{0}">' + INERTIAL + '</link>'
JOINT = ('<joint name="joint{0}" type="{1}"><parent link="{2}"/><child link="link{0}"/>'
         '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="10" velocity="3"/>{3}</joint>')


def chain(moving: int, mimics: int = 0, fixed: int = 0, multiplier: str = '1') -> str:
    """Return an arm of so many joints one after the other."""
    parts = ['<robot name="chain"><link name="link0"/>']
    for number in range(1, moving + mimics + fixed + 1):
        kind = 'fixed' if number > moving + mimics else 'revolute'
        mimic = (f'<mimic joint="joint{number - 1}" multiplier="{multiplier}" offset="0.1"/>'
                 if moving < number <= moving + mimics else '')
        parts.append(LINK.format(number))
        parts.append(JOINT.format(number, kind, f'link{number - 1}', mimic))
    return ''.join(parts) + '</robot>'


def drawn(name: str) -> str:
    """Return an arm with drawings of a file."""
    mesh = f'<geometry><mesh filename="{name}"/></geometry>'
    material = f'<material name="m"><texture filename="{name}"/></material>'
    return change('<link name="fore">', f'<link name="fore"><visual>{mesh}{material}</visual>'
                  f'<collision>{mesh}</collision>')


# Name -> text, and whether it is an arm; None: it may be.
HUGE = 4_900_000  # characters, just below what is read
CORPUS: dict[str, tuple[str, bool | None]] = {
    'entity bomb': (f'{BOMB}<robot name="&j;"/>', False),
    'entity bomb of five megabytes': (
        '<!DOCTYPE q [<!ENTITY a "' + 'a' * 100_000 + '">]><robot name="' + '&a;' * 1_500_000
        + '"/>', False),
    'external entity': ('<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
                        + GOOD.replace('"arm"', '"&f;"'), False),
    'external DTD': (f'<!DOCTYPE robot SYSTEM "http://127.0.0.1:9/x.dtd">{GOOD}', False),
    'included file': (GOOD.replace('</robot>', '<xi:include xmlns:xi="http://www.w3.org/2001/'
                                   'XInclude" href="file:///etc/passwd"/></robot>'), True),
    'style sheet': ('<?xml-stylesheet href="file:///etc/passwd"?>' + GOOD, True),
    'xacro': ('<robot name="a" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:include '
              'filename="/etc/passwd"/></robot>', False),
    'package': (drawn('package://nowhere/x.stl'), True),
    'file': (drawn('file:///etc/passwd'), True),
    'web': (drawn('http://127.0.0.1:9/x.dae'), True),
    'path': (drawn('/etc/passwd'), True),
    'deep nesting': ('<robot name="a">' + '<a>' * 1_600_000, False),
    'fifty megabytes': ('<robot name="a">' + ' ' * 50_000_000 + '</robot>', False),
    'all elements': ('<robot name="a">' + '<a/>' * 1_200_000 + '</robot>', False),
    'all links': ('<robot name="a">' + '<link name=""/>' * 310_000 + '</robot>', False),
    'all attributes': ('<robot name="a"><link '
                       + ' '.join(f'a{number}=""' for number in range(450_000)) + '/></robot>',
                       False),
    'all comments': (GOOD.replace('</robot>', '<!---->' * 690_000 + '</robot>'), True),
    'all text': (GOOD.replace('</robot>', 'é' * 2_400_000 + '</robot>'), True),
    'long name': (GOOD.replace('"fore"', f'"{"x" * (HUGE // 2)}"'), False),
    'long number': (change('<mass value="2"/>', f'<mass value="{"1" * HUGE}"/>'), False),
    'many numbers': (change('xyz="1 0 0"', f'xyz="{"1 " * (HUGE // 2)}"'), False),
    'long tag': (f'<{"r" * HUGE}/>', False),
    'huge numbers': (change('<mass value="2"/>', '<mass value="1e12"/>', 'xyz="1 0 0"',
                            'xyz="1e12 1e12 1e12"'), True),
    'tiny numbers': (change('<mass value="2"/>', '<mass value="1e-320"/>'), None),
    'joints at the bound': (chain(MAX_MOVING_JOINTS), True),
    'mimic joints at the bound': (chain(1, MAX_MOVING_JOINTS - 1), True),
    'one joint too many': (chain(MAX_MOVING_JOINTS + 1), False),
    'one mimic joint too many': (chain(1, MAX_MOVING_JOINTS), False),
    'mimic tags that multiply up': (chain(1, 100, multiplier='1e12'), False),
    'mimic tags that vanish': (chain(1, 100, multiplier='1e-12'), True),
    'mimic cycle': (chain(3).replace('</joint>', '<mimic joint="joint3"/></joint>'), False),
    'two thousand links': (chain(2, fixed=1996), True),
    'comb of joints': (many(118, 'continuous'), True),
    'shipped': (text_of('five_bar'), True),
}
# Loads a text with one engine, and says what became of it, at what cost, and what was opened.
CHILD = """
import json, resource, sys
import numpy, pinocchio
from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.shipped_arms import shipped_urdf
for engine in ('closed_form', 'lagrangian', 'pinocchio'):  # what is imported late
    load_dynamics(shipped_urdf('two_link').read_text(), engine)
text, engine = sys.stdin.buffer.read(), sys.argv[1]
seen = []
sys.addaudithook(lambda event, arguments: seen.append([event, str(arguments)[:200]])
                 if event.split('.')[0] in ('open', 'socket', 'subprocess', 'os', 'urllib',
                                            'exec', 'compile', 'import', 'http', 'ctypes')
                 else None)
if len(sys.argv) > 2:
    open(sys.argv[2])
begin = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
try:
    outcome = f'arm of {len(load_dynamics(text, engine).joints)}'
except LagdynError as error:
    outcome = str(error)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([outcome, sum(usage[:2]) - begin, usage.ru_maxrss / 1e3, seen]))
"""
HARMLESS = ('import', 'compile', 'exec')  # of modules that are imported late, from nowhere else


def loaded_apart(text: str, engine: str, *more: str) -> tuple[str, float, float, list[list[str]]]:
    """Load a text in a process of its own: outcome, processor time [s], memory [MB], what else."""
    child = subprocess.run(
        [sys.executable, '-c', CHILD, engine, *more], input=text.encode('utf-8'),
        capture_output=True, timeout=DEADLINE, check=False)
    assert child.returncode == 0, child.stderr.decode()[-2000:]
    outcome, seconds, memory, seen = json.loads(child.stdout.decode().splitlines()[-1])
    return outcome, seconds, memory, seen


@pytest.mark.parametrize('name', CORPUS)
def test_malicious_urdfs_cost_little_and_open_nothing(name: str) -> None:
    """With the engine that also parses by itself; in time and memory, and without a look aside."""
    text, is_arm = CORPUS[name]
    outcome, seconds, memory, seen = loaded_apart(text, 'pinocchio')
    if is_arm is not None:
        assert outcome.startswith('arm of ') == is_arm, outcome[:300]
    assert seconds < QUICK
    assert memory < LITTLE
    assert not [event for event in seen if event[0] not in HARMLESS]


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('name', ['joints at the bound', 'mimic joints at the bound',
                                  'two thousand links'])
def test_the_largest_arms_load_in_time_in_every_engine(name: str, engine: str) -> None:
    _, seconds, memory, _ = loaded_apart(CORPUS[name][0], engine)
    assert seconds < QUICK
    assert memory < LITTLE


@pytest.mark.parametrize('engine', ENGINES)
def test_no_parser_opens_what_a_text_names(engine: str, tmp_path: Path) -> None:
    """The audit sees Python only. Whatever opens this pipe waits, for nobody writes into it."""
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    for text in (drawn(str(pipe)), drawn(f'file://{pipe}'), drawn(f'package:/{pipe}'),
                 f'<!DOCTYPE robot SYSTEM "{pipe}">{GOOD}',
                 f'<!DOCTYPE r [<!ENTITY f SYSTEM "file://{pipe}">]>'
                 + GOOD.replace('</robot>', '&f;</robot>')):
        loaded_apart(text, engine)


def test_nothing_of_a_description_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled is a formula of this package: of the arm it has numbers, and no text."""
    sources: list[str] = []
    monkeypatch.setattr(compiled, 'compile', lambda source, *more: (
        sources.append(str(source)), compile(source, *more))[1], raising=False)
    word = "__import__('os').abort()"
    for name in ('joint1', 'joint2', 'link1', 'link2', 'two_link'):
        arm = load_dynamics(text_of('two_link').replace(f'"{name}"', f'"{word}"'), 'closed_form')
        arm.all_terms([0.1, 0.2], [0.3, 0.4])
    assert sources
    assert not any('os' in re.findall(r'\w+', source) for source in sources)


def test_what_is_opened_would_be_seen(tmp_path: Path) -> None:
    """The audit of the tests above notices a file."""
    path = tmp_path / 'secret'
    path.touch()
    _, _, _, seen = loaded_apart(GOOD, 'pinocchio', str(path))
    assert any(event == 'open' and str(path) in arguments for event, arguments in seen)


def test_the_largest_arms_make_a_live_model_in_time() -> None:
    """Both engines, without the self-test: in a process of its own for its memory."""
    code = ('import resource, sys, time\n'
            'from ros_lagdyn.live_model import LiveModel, Settings\n'
            'begin = time.process_time()\n'
            'model = LiveModel(sys.stdin.read(), Settings())\n'
            'print(time.process_time() - begin, '
            'resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)')
    for name in ('joints at the bound', 'mimic joints at the bound'):
        child = subprocess.run([sys.executable, '-c', code], input=CORPUS[name][0], text=True,
                               capture_output=True, timeout=DEADLINE, check=True)
        seconds, memory = map(float, child.stdout.split())
        assert seconds < QUICK
        assert memory < LITTLE


def test_a_humanoid_passes_its_self_test() -> None:
    """Sixty joints; the time of it is bounded by what an arm may have."""
    LiveModel(chain(40, mimics=20), Settings()).self_test()


def test_mutants_of_the_shipped_arms() -> None:
    """Seeded; `scripts/fuzz urdf` goes on from here, guided by coverage."""
    mutants, loader = Mutants(20261118), Loader()
    for _ in range(MUTANTS):
        text = mutants.next()
        if loader.load(text):
            mutants.keep(text)
    for outcome in ('arms', 'refused', 'live models'):
        assert loader.counts[outcome] > MUTANTS / 20, loader.counts
