// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Candidate, choose, type Probe, readProbe } from '../src/choose.ts';

const USABLE: Probe = { usable: true, python: '3.12.1', warplens: '0.1.0' };
const BROKEN: Probe = { usable: false, reason: 'it does not start' };

function probes(answers: Record<string, Probe>): (command: string) => Promise<Probe> {
  return (command) => Promise.resolve(answers[command] ?? BROKEN);
}

const CANDIDATES: Candidate[] = [
  { origin: 'managed environment', command: 'managed' },
  { origin: 'Python extension', command: 'project' },
  { origin: 'PATH', command: 'python3' },
];

test('the first usable candidate is taken, with a reason for each before it', async () => {
  const { chosen, reasons } = await choose(CANDIDATES, probes({ project: USABLE, python3: USABLE }));
  assert.equal(chosen?.origin, 'Python extension');
  assert.deepEqual(reasons, [
    'managed environment: managed: passed over, it does not start',
    'Python extension: project: taken, Warplens 0.1.0 on Python 3.12.1',
  ]);
});

test('nothing replaces a setting that does not work', async () => {
  const setting: Candidate = { origin: 'setting', command: 'mine' };
  const { chosen, reasons } = await choose([setting, ...CANDIDATES], probes({ managed: USABLE }));
  assert.equal(chosen, undefined);
  assert.deepEqual(reasons, ['setting: mine: passed over, it does not start']);
});

test('a Python without Warplens, too old, or no Python at all is not usable', () => {
  const cases: [string, RegExp][] = [
    ['{"python": [3, 12, 1], "warplens": null}', /not installed/],
    ['{"python": [3, 10, 14], "warplens": "0.1.0"}', /3\.10\.14 is older/],
    ['{"python": [2, 7, 18], "warplens": "0.1.0"}', /2\.7\.18 is older/],
    ['Python was not found', /it answered/],
  ];
  for (const [output, reason] of cases) {
    const probe = readProbe(output);
    assert.ok(!probe.usable);
    assert.match(probe.reason, reason);
  }
  assert.deepEqual(readProbe('{"python": [3, 12, 1], "warplens": "0.1.0"}'), USABLE);
});
