// SPDX-License-Identifier: Apache-2.0
// One line for each test, the reason of each failure, and the closing line `N passed, N failed`.
export default async function* reporter(events) {
  let passed = 0;
  let failed = 0;
  const failures = [];
  for await (const { type, data } of events) {
    if (type === 'test:stdout' || type === 'test:stderr') yield data.message;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details.type === 'suite') continue;
    const seconds = (data.details.duration_ms / 1000).toFixed(1);
    const skipped = data.skip !== undefined ? ` (skipped: ${data.skip})` : '';
    if (type === 'test:pass') {
      if (!skipped) passed += 1;
      yield `ok   ${data.name} (${seconds} s)${skipped}\n`;
    } else {
      failed += 1;
      yield `FAIL ${data.name} (${seconds} s)\n`;
      failures.push(`${data.name}\n${data.details.error?.cause?.stack ?? data.details.error?.stack ?? ''}\n`);
    }
  }
  for (const failure of failures) yield `\n${failure}`;
  yield `${passed} passed, ${failed} failed\n`;
}
