# SPDX-License-Identifier: Apache-2.0
"""docs/faults.md names every test of faults, and no other."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ('test_faults.py', 'test_faults_of_processes.py', 'test_faults_of_networks.py')


def test_every_promise_has_its_test_and_every_test_its_promise() -> None:
    text = (HERE.parent / 'docs' / 'faults.md').read_text(encoding='utf-8')
    rows = [[cell.strip() for cell in line.strip('|').split('|')]
            for line in text.splitlines() if line.startswith('| ')]
    assert rows[0] == ['fault', 'what the node does', 'within', 'test']
    assert all(len(row) == 4 and all(row) for row in rows)
    named = [row[3].strip('`') for row in rows[1:]]
    found = [name for file in FILES for name in re.findall(
        r'^def (test_\w+)', (HERE / file).read_text(encoding='utf-8'), re.MULTILINE)]
    assert sorted(named) == sorted(found)
