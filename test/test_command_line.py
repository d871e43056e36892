# SPDX-License-Identifier: Apache-2.0
"""The command `lagdyn`: what it prints, what it returns, and that no traceback reaches a user."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from shipped import ENGINES, SHIPPED, text_of

from ros_lagdyn import command_line
from ros_lagdyn.check import check_arm
from ros_lagdyn.laws import LAW_NAMES
from ros_lagdyn.pinocchio_dynamics import PinocchioDynamics
from ros_lagdyn.shipped_arms import SHIPPED_ARMS, STEMS

ROOT = Path(__file__).resolve().parent.parent
TERMS = ('mass_matrix', 'coriolis', 'gravity', 'torque')
FEW = ('--states', '5')


class Result(NamedTuple):
    """What a run of the command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command in this process."""
    def _run(*arguments: str) -> Result:
        try:
            code = command_line.main(arguments)
        except SystemExit as leave:  # argparse
            code = int(leave.code or 0)
        return Result(code, *capsys.readouterr())
    return _run


def run_process(arguments: Sequence[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own, as a shell does."""
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), **settings.pop('env', {})}
    environment.pop('PYTHONUNBUFFERED', None)  # a user's shell does not set it
    return subprocess.run(
        [sys.executable, '-m', 'ros_lagdyn', *arguments], env=environment, text=True, timeout=120,
        check=False, **{'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **settings})


def strict_json(text: str) -> Any:
    """Parse JSON as other languages do, which know no NaN and no Infinity."""
    def refuse(constant: str) -> None:
        raise AssertionError(f'{constant} is not JSON')
    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def wrong_pinocchio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one engine find 1 per mille too much gravity."""
    right = PinocchioDynamics._gravity
    monkeypatch.setattr(PinocchioDynamics, '_gravity', lambda self, q: 1.001 * right(self, q))


# -- a good arm ------------------------------------------------------------------------------


def test_check_as_a_user_runs_it() -> None:
    """`python -m ros_lagdyn check two_link` ends with code 0 and prints a readable table."""
    done = run_process(['check', 'two_link', '--states', '50'])
    assert done.returncode == 0
    assert done.stderr == ''
    for piece in ('closed form: two_link', 'at 50 states', 'closed_form - pinocchio',
                  'M[1,1] varies with joint2', 'RESULT: all engines agree, all laws hold',
                  *LAW_NAMES, *ENGINES):
        assert piece in done.stdout
    assert '!' not in done.stdout  # the mark of a disagreement


@pytest.mark.parametrize('stem', SHIPPED)
def test_every_shipped_arm_is_good(run: Run, stem: str) -> None:
    """Each arm is recognised as itself and passes."""
    result = run('check', stem, '--json', *FEW)
    assert (result.code, result.err) == (0, '')
    report = strict_json(result.out)
    assert report['ok'] is True
    (arm,) = report['arms']
    assert (arm['urdf'], arm['robot'], arm['mechanism']) == (stem, stem, stem)
    assert arm['faults'] == [] and arm['not_recognised'] is None


def test_json_has_the_numbers_of_every_term(run: Run) -> None:
    """Programs find each term of each pair of engines, each law, structure and bounds."""
    (arm,) = strict_json(run('check', 'two_link', '--json', *FEW).out)['arms']
    assert arm['states'] == 5
    assert {tuple(pair['engines']) for pair in arm['comparisons']} == {
        ('closed_form', 'lagrangian'), ('closed_form', 'pinocchio'), ('lagrangian', 'pinocchio')}
    for pair in arm['comparisons']:
        assert set(pair['disagreement']) == set(TERMS)
        assert all(0.0 <= value < 1e-12 for value in pair['disagreement'].values())
    assert set(arm['laws']) == set(ENGINES)
    for laws in arm['laws'].values():
        assert [law['law'] for law in laws] == list(LAW_NAMES)
        assert all(law['violation'] <= law['tolerance'] for law in laws)
    assert arm['structure']['mass_matrix_constant'] is False
    assert arm['structure']['coupled'] == [['joint1', 'joint2']]
    assert 0.0 < arm['bounds']['lower'] < arm['bounds']['upper']


def test_all_checks_every_shipped_arm(run: Run) -> None:
    """--all needs no names, and no names mean all."""
    assert strict_json(run('check', '--json', *FEW).out) == strict_json(
        run('check', '--all', '--json', *FEW).out)
    result = run('check', '--all', '--json', *FEW)
    assert result.code == 0
    assert [arm['urdf'] for arm in strict_json(result.out)['arms']] == list(STEMS)


def test_several_arms_in_one_run(run: Run) -> None:
    """Each has its own table, in the order of the arguments."""
    result = run('check', 'cartesian', 'two_link', *FEW)
    assert result.code == 0
    assert result.out.index('cartesian: robot') < result.out.index('two_link: robot')
    assert result.out.count('RESULT: all engines agree') == 2


def test_a_path_a_shipped_name_and_standard_input_are_the_same(
        run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However an arm is named, its report is the same."""
    path = tmp_path / 'my arm é.urdf'
    path.write_text(text_of('five_bar'), encoding='utf-8')
    reports = []
    for name in ('five_bar', str(path), '-'):
        raw = io.BytesIO(text_of('five_bar').encode())
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(raw))
        result = run('check', name, '--json', *FEW)
        assert result.code == 0
        (arm,) = strict_json(result.out)['arms']
        assert arm.pop('urdf') == name
        reports.append(arm)
    assert reports[0] == reports[1] == reports[2]


def test_a_file_goes_before_a_shipped_arm_of_the_same_name(
        run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file called two_link in the working directory is what the user means."""
    (tmp_path / 'two_link').write_text(text_of('cartesian'), encoding='utf-8')
    monkeypatch.chdir(tmp_path)
    assert 'closed form: cartesian' in run('check', 'two_link', *FEW).out


def test_seeds_repeat(run: Run) -> None:
    """The same seed gives the same report, another one another."""
    one, two, three = (run('check', 'spatial_3r', '--json', '--seed', seed, *FEW).out
                       for seed in ('3', '3', '4'))
    assert one == two != three


def test_gravity_is_heeded(run: Run) -> None:
    """With gravity along the joint axes, the elbow has no gravity term."""
    result = run('check', 'two_link', '--gravity', '0', '-9.81', '0', *FEW)
    assert result.code == 0
    assert 'g = 0: yes' in result.out
    assert 'g = 0: no' in run('check', 'two_link', *FEW).out


@pytest.mark.parametrize('small', ['-1e-3', '-.5', '-1E1', '1e-3'])
def test_gravity_may_be_written_in_any_way(run: Run, small: str) -> None:
    """-1e-3 is a number, not an option."""
    assert run('check', 'two_link', '--gravity', '0', '0', small, *FEW).code == 0


def test_prismatic_arms_say_why_they_have_no_bounds(run: Run) -> None:
    """No bounds is an answer with a reason."""
    assert 'eigenvalues of M: joint "joint1" is prismatic' in run('check', 'cartesian', *FEW).out
    (arm,) = strict_json(run('check', 'cartesian', '--json', *FEW).out)['arms']
    assert arm['bounds'] is None and 'prismatic' in arm['no_bounds']


def test_progress_is_reported_in_steps() -> None:
    """A long check says how far it is, and ends at its whole number of states."""
    seen: list[tuple[int, int]] = []
    check_arm(text_of('cartesian'), states=1001,
              progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1001, 1001)
    assert len(seen) > 1 and seen == sorted(seen)


def test_progress_line_is_for_terminals_only(
        run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal sees a line that is wiped at the end; a file or pipe sees nothing."""
    assert run('check', 'cartesian', *FEW).err == ''
    monkeypatch.setattr('sys.stderr.isatty', lambda: True, raising=False)
    shown = run('check', 'cartesian', *FEW).err
    assert '5 of 5 states' in shown
    assert shown.endswith('\x1b[K')


# -- an arm without a closed form ------------------------------------------------------------


def chain(kinds: str) -> str:
    """Return a URDF of joints 'R' and 'P' about or along x, y and z in turn."""
    axes = ('1 0 0', '0 1 0', '0 0 1')
    parts = ['<robot name="chain"><link name="link0"/>']
    for index, kind in enumerate(kinds):
        parts.append(
            f'<joint name="j{index}" type="{"revolute" if kind == "R" else "prismatic"}">'
            f'<parent link="link{index}"/><child link="link{index + 1}"/>'
            f'<origin xyz="0.1 0.05 0.2"/><axis xyz="{axes[(index + 1) % 3]}"/>'
            '<limit lower="-1" upper="1" effort="10" velocity="2"/></joint>'
            f'<link name="link{index + 1}"><inertial><origin xyz="0.05 0.02 0.1"/>'
            '<mass value="1"/><inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" '
            'izz="0.02"/></inertial></link>')
    return '\n'.join([*parts, '</robot>'])


@pytest.mark.parametrize('kinds', ['RRRRRR', 'RP', 'R', 'PPP'])
def test_an_unrecognised_arm_is_checked_by_two_engines(
        run: Run, tmp_path: Path, kinds: str) -> None:
    """No formula is no fault: the other two engines are compared all the same."""
    path = tmp_path / 'chain.urdf'
    path.write_text(chain(kinds), encoding='utf-8')
    result = run('check', str(path), '--json', *FEW)
    assert result.code == 0
    (arm,) = strict_json(result.out)['arms']
    assert arm['mechanism'] is None
    assert 'j0' in arm['not_recognised']
    assert [pair['engines'] for pair in arm['comparisons']] == [['lagrangian', 'pinocchio']]


def test_the_table_of_an_unrecognised_arm(run: Run, tmp_path: Path) -> None:
    """It says that there is no closed form, and why."""
    path = tmp_path / 'chain.urdf'
    path.write_text(chain('RP'), encoding='utf-8')
    result = run('check', str(path), *FEW)
    assert result.code == 0
    assert 'closed form: none, robot "chain": no closed form has the joints j0' in result.out
    assert 'lagrangian - pinocchio' in result.out
    assert 'closed_form - ' not in result.out


# -- disagreement ----------------------------------------------------------------------------


def test_a_wrong_engine_is_found_out(run: Run, wrong_pinocchio: None) -> None:
    """Exit code 1, a mark at each number that is too large, and the faults in words."""
    result = run('check', 'two_link', *FEW)
    assert result.code == 1
    line = result.out[result.out.index('RESULT'):]
    assert 'closed_form and pinocchio disagree on gravity' in line
    assert 'lagrangian and pinocchio disagree on gravity' in line
    assert 'pinocchio violates "g = dU/dq"' in line
    assert 'closed_form and lagrangian' not in line
    assert 'all engines agree' not in result.out
    marked = [line for line in result.out.splitlines() if line.endswith(' !') or ' ! ' in line]
    assert any(line.strip().startswith('lagrangian - pinocchio') for line in marked)
    assert any(line.strip().startswith('g = dU/dq') for line in marked)


def test_faults_reach_programs(run: Run, wrong_pinocchio: None) -> None:
    """The JSON says that it is not ok, and why."""
    result = run('check', 'two_link', 'cartesian', '--json', *FEW)
    assert result.code == 1
    report = strict_json(result.out)
    assert report['ok'] is False
    for arm in report['arms']:
        assert arm['ok'] is False
        assert any('disagree on gravity' in fault for fault in arm['faults'])


def test_tolerance_decides_what_is_a_fault(run: Run, wrong_pinocchio: None) -> None:
    """Below rounding everything is a fault; a wide tolerance leaves only the broken laws."""
    assert run('check', 'spatial_3r', '--tolerance', '1e-17', *FEW).code == 1
    result = run('check', 'two_link', '--tolerance', '0.1', '--json', *FEW)
    (arm,) = strict_json(result.out)['arms']
    assert result.code == 1
    assert all('violates' in fault for fault in arm['faults'])


def test_rounding_is_a_fault_where_the_tolerance_is_too_strict(run: Run) -> None:
    """With right engines and --tolerance 1e-17 the exit code is 1."""
    assert run('check', 'spatial_3r', '--tolerance', '1e-17', *FEW).code == 1


@pytest.mark.filterwarnings('ignore::RuntimeWarning')
@pytest.mark.parametrize('term', ['_mass_matrix', '_coriolis_matrix', '_gravity',
                                  '_inverse_dynamics', '_potential_energy'])
def test_an_engine_that_returns_no_number_is_a_disagreement(
        run: Run, monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    """NaN from an engine is its fault, not the URDF's: code 1, and the JSON stays JSON."""
    right = getattr(PinocchioDynamics, term)
    monkeypatch.setattr(PinocchioDynamics, term,
                        lambda self, *states: np.nan * right(self, *states))
    result = run('check', 'two_link', '--json', *FEW)
    assert result.code == 1
    (arm,) = strict_json(result.out)['arms']
    assert arm['ok'] is False and arm['faults']
    assert run('check', 'two_link', *FEW).code == 1


# -- bad input -------------------------------------------------------------------------------

BOMB = ('<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
        '<robot name="&b;"/>')
GOOD = chain('RR')
BAD = {
    'empty': '',
    'not XML': 'this is no URDF',
    'malformed': GOOD.replace('</robot>', ''),
    'bomb': BOMB,
    'not a robot': '<world name="x"/>',
    'no links': '<robot name="x"/>',
    'no joints': '<robot name="x"><link name="a"/></robot>',
    'missing link': GOOD.replace('child link="link2"', 'child link="nowhere"'),
    'duplicate': GOOD.replace('name="j1"', 'name="j0"'),
    'loop': GOOD.replace('parent link="link0"', 'parent link="link2"'),
    'zero mass': GOOD.replace('mass value="1"', 'mass value="0"'),
    'negative mass': GOOD.replace('mass value="1"', 'mass value="-1"'),
    'triangle': GOOD.replace('iyy="0.03"', 'iyy="3"'),
    'nan': GOOD.replace('izz="0.02"', 'izz="nan"'),
    'unknown mimic': GOOD.replace('</joint>', '<mimic joint="ghost"/></joint>', 1),
    'mimic of itself': GOOD.replace('</joint>', '<mimic joint="j0"/></joint>', 1),
    'floating': GOOD.replace('type="revolute"', 'type="floating"'),
    'planar': GOOD.replace('type="revolute"', 'type="planar"'),
    'xacro': '<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arm/></robot>',
}


@pytest.mark.parametrize('kind', BAD)
def test_a_bad_file_is_one_line_and_code_2(run: Run, tmp_path: Path, kind: str) -> None:
    """One sentence on standard error that names the file; nothing on standard output."""
    path = tmp_path / 'bad.urdf'
    path.write_text(BAD[kind], encoding='utf-8')
    result = run('check', str(path), *FEW)
    assert (result.code, result.out) == (2, '')
    assert result.err.startswith(f'lagdyn: {path}: ')
    assert result.err.count('\n') == 1 and result.err.endswith('\n')
    assert 'Traceback' not in result.err


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    """A missing file, a folder, a binary file and an unknown arm are each one sentence."""
    binary = tmp_path / 'binary.urdf'
    binary.write_bytes(bytes(range(256)))
    for name in (str(tmp_path / 'missing.urdf'), str(tmp_path), str(binary), 'three_link', '',
                 'nowhere/at/all', 'x' * 5000):
        result = run('check', name, *FEW)
        assert (result.code, result.out) == (2, '')
        assert result.err.count('\n') == 1
        assert result.err.startswith('lagdyn: ')


def test_no_traceback_from_the_process(tmp_path: Path) -> None:
    """The same as a process: code 2, one line, no traceback."""
    done = run_process(['check', str(tmp_path / 'missing.urdf')])
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.count('\n') == 1
    assert 'does not exist' in done.stderr


def test_one_bad_file_among_good_ones(run: Run, tmp_path: Path) -> None:
    """The good ones are checked all the same; the exit code tells of the bad one."""
    path = tmp_path / 'bad.urdf'
    path.write_text(BAD['loop'], encoding='utf-8')
    result = run('check', 'two_link', str(path), 'cartesian', *FEW)
    assert result.code == 2
    assert result.out.count('RESULT: all engines agree') == 2
    assert result.err.count('\n') == 1
    report = strict_json(run('check', 'two_link', str(path), 'cartesian', '--json', *FEW).out)
    assert [arm['ok'] for arm in report['arms']] == [True, False, True]
    assert 'loop' in report['arms'][1]['error']
    assert report['ok'] is False


def test_a_bad_file_outweighs_a_disagreement(
        run: Run, tmp_path: Path, wrong_pinocchio: None) -> None:
    """Code 2 where a file is bad, whatever else there is."""
    missing = str(tmp_path / 'missing.urdf')
    assert run('check', missing, 'two_link', *FEW).code == 2
    assert run('check', 'two_link', missing, *FEW).code == 2


def test_bad_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty or a broken standard input is one sentence."""
    for text in ('', '<robot', 'x' * 100):
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(text.encode())))
        result = run('check', '-', *FEW)
        assert (result.code, result.out) == (2, '')
        assert result.err.startswith('lagdyn: -: ')
        assert result.err.count('\n') == 1


@pytest.mark.parametrize('arguments', [
    [], ['check', 'two_link', '--all'], ['fly'], ['check', 'two_link', '--stats', '3'],
    ['check', 'two_link', '--states', '0'], ['check', 'two_link', '--states', '-5'],
    ['check', 'two_link', '--states', 'many'], ['check', 'two_link', '--states', '1e99'],
    ['check', 'two_link', '--states', '99999999999'],
    ['check', 'two_link', '--gravity', '0', '0'],
    ['check', 'two_link', '--gravity', '0', '0', 'g'],
    ['check', 'two_link', '--gravity', '0', '0', 'nan'],
    ['check', 'two_link', '--gravity', '0', '0', 'inf'],
    ['check', 'two_link', '--tolerance', '0'], ['check', 'two_link', '--tolerance', '2'],
    ['check', 'two_link', '--tolerance', 'nan'], ['check', 'two_link', '--tolerance', 'low'],
    ['check', 'two_link', '--seed', 'x'], ['check', 'two_link', '--seed', '-1'],
    ['arms', 'two_link'],
], ids=' '.join)
def test_bad_arguments_are_code_2_and_a_hint(run: Run, arguments: list[str]) -> None:
    """The sentence is that of argparse: usage, and what is wrong."""
    result = run(*arguments)
    assert (result.code, result.out) == (2, '')
    assert 'usage: lagdyn' in result.err
    assert 'error: ' in result.err.splitlines()[-1]


@pytest.mark.parametrize('gravity', [('1e200', '1', '1'), ('1e308', '1e308', '1e308')])
def test_absurd_gravity_is_no_traceback_and_no_success(gravity: tuple[str, ...]) -> None:
    """Numbers that overflow end in a sentence, not in a table of nan."""
    done = run_process(['check', 'two_link', *FEW, '--gravity', *gravity])
    assert done.returncode in (1, 2)
    assert 'Traceback' not in done.stderr
    assert 'Warning' not in done.stderr
    assert 'nan' not in done.stdout


# -- other commands and other ends -----------------------------------------------------------


def test_arms_lists_what_is_shipped(run: Run) -> None:
    """A row per arm, with a path that is there."""
    result = run('arms')
    assert result.code == 0
    rows = result.out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(STEMS)
    for row, arm in zip(rows, SHIPPED_ARMS, strict=True):
        assert arm.title in row and arm.documents in row
        assert Path(row.split()[-1]).is_file()


def test_arms_for_programs(run: Run) -> None:
    """The same as JSON."""
    rows = strict_json(run('arms', '--json').out)
    assert [row['stem'] for row in rows] == list(STEMS)
    for row in rows:
        assert Path(row['urdf']).name == f'{row["stem"]}.urdf'
        assert row['joints'][:2] == ['joint1', 'joint2']


def test_help_names_everything(run: Run) -> None:
    """--help explains the commands, the options, the shipped arms and the exit codes."""
    assert 'check' in run('--help').out
    text = ' '.join(run('check', '--help').out.split())
    for piece in ('--states', '--seed', '--gravity', '--tolerance', '--json', '--all', *STEMS,
                  'Exit code: 0 all agrees, 1 something disagrees, 2 an argument or URDF is bad'):
        assert piece in text


def test_interrupt_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with the code that shells expect, and without a traceback."""
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt
    monkeypatch.setattr(command_line, 'check_arm', interrupted)
    result = run('check', 'two_link')
    assert (result.code, result.out, result.err) == (130, '', 'lagdyn: stopped\n')


@pytest.mark.parametrize('arguments', [
    ['arms'], ['check', 'cartesian', *FEW], ['check', 'cartesian', '--json', *FEW]], ids=' '.join)
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    """`lagdyn arms | head -0` ends quietly, though its output has nowhere to go."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = run_process(arguments, stdout=write_end)
    finally:
        os.close(write_end)
    assert done.stderr == ''
    assert done.returncode == 0


@pytest.mark.parametrize('encoding', ['ascii', 'latin-1', 'utf-8:strict'])
def test_names_that_the_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    """A robot called in Chinese is checked on a terminal that knows no Chinese."""
    path = tmp_path / 'arm.urdf'
    path.write_text(GOOD.replace('name="chain"', 'name="机械臂"'), encoding='utf-8')
    done = run_process(['check', str(path), *FEW], env={'PYTHONIOENCODING': encoding},
                       encoding='utf-8', errors='replace')
    assert 'Traceback' not in done.stderr
    assert done.returncode == 0


def test_file_names_that_are_not_text(tmp_path: Path) -> None:
    """A file name of bytes that are no UTF-8 is a file name."""
    name = os.fsencode(tmp_path) + b'/arm_\xff.urdf'
    try:
        with open(name, 'w', encoding='utf-8') as file:
            file.write(GOOD)
    except OSError:
        pytest.skip('this file system takes UTF-8 names only')
    for flags in ((), ('--json',)):
        done = run_process(['check', os.fsdecode(name), *flags, *FEW],
                           env={'PYTHONIOENCODING': 'utf-8:strict'})
        assert 'Traceback' not in done.stderr
        assert done.returncode == 0
