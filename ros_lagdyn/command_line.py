# SPDX-License-Identifier: Apache-2.0
"""The command `lagdyn`: checks arms, lists those that are shipped, readies URDFs for control."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ros_lagdyn import __version__
from ros_lagdyn.check import TOLERANCE, ArmReport, check_arm
from ros_lagdyn.cross_check import Disagreement
from ros_lagdyn.dynamics import EARTH_GRAVITY, ENGINES
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.laws import LAW_NAMES
from ros_lagdyn.ros2_control_overlay import MOCK_HARDWARE, with_ros2_control
from ros_lagdyn.shipped_arms import SHIPPED_ARMS, STEMS, shipped_urdf
from ros_lagdyn.urdf_model import load_arm
from ros_lagdyn.urdf_text import MAX_BYTES

GOOD, DISAGREES, BAD_INPUT = 0, 1, 2  # exit codes
_TERMS = {'mass_matrix': 'M', 'coriolis': 'C', 'gravity': 'g', 'torque': 'tau'}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == 'check' and options.all and options.urdf:
        parser.error('check takes URDFs or --all, not both')
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors='backslashreplace')
    try:
        code = _COMMANDS[options.command](options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except LagdynError as error:
        print(f'lagdyn: {error}', file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print('lagdyn: stopped', file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe went away, as in `lagdyn check ... | head`: no more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    except OSError as error:
        print(f'lagdyn: cannot write: {error.strerror}', file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='lagdyn', description='Robot arm dynamics, computed by independent engines.')
    parser.add_argument('--version', action='version', version=f'ros_lagdyn {__version__}')
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    arms = commands.add_parser('arms', help='list the arms that come with the package')
    arms.add_argument('--json', action='store_true', help='print JSON for programs')
    check = commands.add_parser(
        'check', help='compare all engines on an arm, and check physical laws',
        description='Compare all engines on an arm at random states within its joint limits, '
                    'check physical laws, and show the structure found.',
        epilog=f'Exit code: {GOOD} all agrees, {DISAGREES} something disagrees, {BAD_INPUT} an '
               'argument or URDF is bad.')
    check.add_argument(
        'urdf', nargs='*', metavar='URDF',
        help='path of a URDF, "-" for standard input, or a shipped arm: ' + ', '.join(STEMS))
    check.add_argument('--all', action='store_true',
                       help='check every shipped arm, as without any URDF')
    check.add_argument('--states', type=count, default=1000, metavar='N',
                       help='how many random states (default %(default)s)')
    check.add_argument('--seed', type=seed, default=0, metavar='S',
                       help='seed of the random states (default %(default)s)')
    # Before Python 3.14, argparse takes -1e-3 for an option.
    check._negative_number_matcher = re.compile(
        r'-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$')
    check.add_argument('--gravity', type=number, nargs=3, default=EARTH_GRAVITY,
                       metavar=('X', 'Y', 'Z'),
                       help='gravity in m/s^2, in root link axes (default 0 0 -9.81)')
    check.add_argument('--tolerance', type=tolerance, default=TOLERANCE, metavar='T',
                       help='largest relative disagreement that is no fault (default %(default)s)')
    check.add_argument('--json', action='store_true', help='print JSON for programs')
    overlay = commands.add_parser(
        'ros2_control', help='print a URDF with a <ros2_control> block for its joints',
        description='Print a URDF with a <ros2_control> block that gives each independent joint '
                    'an effort command and position, velocity and effort states.')
    overlay.add_argument('urdf', metavar='URDF',
                         help='path of a URDF, "-" for standard input, or a shipped arm')
    overlay.add_argument('--plugin', default=MOCK_HARDWARE, metavar='NAME',
                         help='hardware plugin (default %(default)s)')
    return parser


# Named as argparse shall name them: "invalid count value: 'abc'".


def count(text: str) -> int:
    """Read a number of states."""
    value = int(text)
    if not 1 <= value <= 10_000_000:
        raise argparse.ArgumentTypeError(f'must be from 1 to 10000000, got {value}')
    return value


def seed(text: str) -> int:
    """Read a seed."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f'must be >= 0, got {value}')
    return value


def number(text: str) -> float:
    """Read a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f'must be finite, got {text}')
    return value


def tolerance(text: str) -> float:
    """Read a relative tolerance."""
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f'must be between 0 and 1, got {text}')
    return value


def _arms(options: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    for arm in SHIPPED_ARMS:
        path = shipped_urdf(arm.stem)
        rows.append({'stem': arm.stem, 'title': arm.title, 'documents': arm.documents,
                     'joints': list(load_arm(path).joints), 'urdf': str(path)})
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        _print_table(('arm', 'what it is', 'documents', 'joints', 'URDF'), [
            (row['stem'], row['title'], row['documents'], ' '.join(row['joints']), row['urdf'])
            for row in rows])
    return GOOD


def _check(options: argparse.Namespace) -> int:
    code = GOOD
    reports: list[dict[str, Any]] = []
    for name in options.urdf or STEMS:
        try:
            report = check_arm(
                _source(name), states=options.states, seed=options.seed,
                gravity=options.gravity, tolerance=options.tolerance,
                progress=_Progress(name))
        except LagdynError as error:
            code = max(code, BAD_INPUT)
            reports.append({'urdf': name, 'error': str(error), 'ok': False})
            print(f'lagdyn: {name}: {error}', file=sys.stderr)
            continue
        code = max(code, DISAGREES if report.faults else GOOD)
        reports.append({'urdf': name, **report.to_dict()})
        if not options.json:
            _print_report(name, report)
    if options.json:
        print(json.dumps({'ok': code == GOOD, 'arms': reports}, indent=2))
    return code


def _ros2_control(options: argparse.Namespace) -> int:
    print(with_ros2_control(_source(options.urdf), options.plugin), end='')
    return GOOD


_COMMANDS = {'arms': _arms, 'check': _check, 'ros2_control': _ros2_control}


def _source(name: str) -> str | bytes | Path:
    """Return what to load: standard input, a file, or a shipped arm."""
    if name == '-':
        if sys.stdin is None:
            raise LagdynError('standard input is closed')
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    if not os.path.exists(name) and not os.path.dirname(name) and not Path(name).suffix:
        return shipped_urdf(name)
    return Path(name)


class _Progress:
    """A line on a terminal that says how far a long check is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._shown:
            end = '\r\x1b[K' if done == total else ''
            print(f'\r{self._name}: {done} of {total} states', end=end, file=sys.stderr,
                  flush=True)


# -- the readable report ---------------------------------------------------------------------


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = '') -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print((indent + '  '.join(cells)).rstrip())


def _print_report(name: str, report: ArmReport) -> None:
    title = f'{name}: robot "{report.robot}", joints {", ".join(report.joints)}'
    print(title)
    print('-' * len(title))
    print(f'closed form: {report.mechanism or "none, " + str(report.not_recognised)}')
    print(f'\nworst relative disagreement at {report.states} states '
          f'(tolerance {report.tolerance:.0e})')
    terms = [term.name for term in fields(Disagreement)]
    _print_table(('', *(_TERMS[term] for term in terms)), [
        (' - '.join(comparison.engines),
         *(_mark(getattr(comparison.disagreement, term), report.tolerance) for term in terms))
        for comparison in report.comparisons], indent='  ')
    engines = [engine for engine in ENGINES if engine in report.laws]
    print('\nworst violation of physical laws')
    _print_table(('', *engines, 'tolerance'), [
        (law, *(_mark(report.laws[engine][row].violation, report.laws[engine][row].tolerance)
                for engine in engines), f'{report.laws[engines[0]][row].tolerance:.1e}')
        for row, law in enumerate(LAW_NAMES)], indent='  ')
    _print_structure(report)
    if report.faults:
        print(f'\nRESULT: {len(report.faults)} faults')
        for fault in report.faults:
            print(f'  {fault}')
        print()
    else:
        print('\nRESULT: all engines agree, all laws hold\n')


def _mark(value: float, tolerance: float) -> str:
    return f'{value:.1e}' + ('' if value <= tolerance else ' !')


def _print_structure(report: ArmReport) -> None:
    found = report.structure
    print('\nstructure')
    answers = [
        ('M constant', found.mass_matrix_constant), ('M diagonal', found.mass_matrix_diagonal),
        ('C = 0', found.coriolis_zero), ('g = 0', found.gravity_zero),
        ('linear', found.linear)]
    print('  ' + ', '.join(f'{question}: {"yes" if yes else "no"}' for question, yes in answers))
    print('  coupled by M: ' + (', '.join('-'.join(pair) for pair in found.coupled) or 'none'))
    for i, row in enumerate(found.mass_matrix_varies_with):
        for j, joints in enumerate(row[i:], i):
            if joints:
                print(f'  M[{i + 1},{j + 1}] varies with {", ".join(joints)}')
    for i, joints in enumerate(found.gravity_varies_with):
        if joints:
            print(f'  g[{i + 1}] varies with {", ".join(joints)}')
    if report.bounds is not None:
        print(f'  eigenvalues of M: {report.bounds.least_seen:.6g} to '
              f'{report.bounds.greatest_seen:.6g} seen, guaranteed in every pose: '
              f'{report.bounds.lower:.3g} to {report.bounds.upper:.6g}')
    else:
        print(f'  eigenvalues of M: {report.no_bounds}')
