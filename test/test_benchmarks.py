# SPDX-License-Identifier: Apache-2.0
"""Benchmarks run and report in their form; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 120.0  # [s], far above what the tiny counts take
ENVIRONMENT = {
    'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    'ROS_DOMAIN_ID': str(os.getpid() % 100 + 1),
    'PYTHONPATH': os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]),
}


def run(*arguments: str) -> str:
    """Run node_latency; return what it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / 'benchmark' / 'node_latency'), *arguments],
        env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=DEADLINE)
    # 1 says that a target was missed, which a busy machine may cause; a fault prints nothing.
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    return done.stdout


def assert_consistent(row: dict[str, Any], sides: set[str]) -> None:
    """Check a comparison: positive times of both sides, and the ratio of the best."""
    first, second = row['best'].values()
    assert set(row['best']) == set(row['median']) == sides
    assert 0.0 < first <= row['median']['node']
    assert second > 0.0
    assert row['ratio'] == pytest.approx(first / second)


def test_node_latency_compares_node_and_relay_at_each_rate() -> None:
    """Every rate has its latencies, CPU time and losses, of both sides in the same run."""
    report = json.loads(run(
        '--rates', '50', '100', '--seconds', '0.4', '--rounds', '2', '--json'))
    assert list(report) == ['50', '100']
    for rate, found in report.items():
        assert list(found) == ['p50', 'p99', 'cpu', 'lost']
        for quantity in ('p50', 'p99', 'cpu'):
            assert_consistent(found[quantity], {'node', 'relay'})
        for side in ('node', 'relay'):
            assert found['p50']['best'][side] <= found['p99']['best'][side]
            sent, lost = found['lost']['sent'][side], found['lost']['lost'][side]
            assert sent == round(float(rate) * 0.4)
            assert 0 <= lost < sent


def test_node_latency_prints_a_table_with_what_is_wanted() -> None:
    """A reader sees each quantity with its ratio and the ratio that is wanted."""
    lines = run('--rates', '100', '--seconds', '0.2', '--rounds', '1').splitlines()
    assert 'two_link' in lines[0]
    assert len(lines) == 6
    for line, name, wanted in zip(
            lines[2:], ('p50', 'p99', 'CPU per message', 'lost'),
            ('at most 1.15', '-', 'at most 1.15', 'at most relay'), strict=True):
        assert name in line
        assert wanted in line


def test_start_up_compares_the_node_with_a_bare_one_and_names_the_parts() -> None:
    """The time to the first torque comes with what the start consists of."""
    report = json.loads(run('--start-up', '--rounds', '1', '--json'))
    assert_consistent(report, {'node', 'bare'})
    assert len(report['rounds']['node']) == len(report['rounds']['bare']) == 1
    parts = report['parts']
    assert parts['model'] > 0.0
    assert parts['self_test'] > 0.0
    assert 'ros_lagdyn' in parts['imports_of_node']
    assert 'ros_lagdyn' not in parts['imports_of_bare_node']
