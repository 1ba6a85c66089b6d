// SPDX-License-Identifier: Apache-2.0
// What CUTLASS has for a selection: a list that shows each place, opens it at its line, and peeks at all of them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, ROOT, until } from './editor.ts';

const home = mkdtempSync(join(tmpdir(), 'warplens-home-'));
const editor = new Editor({
  name: 'cute',
  files: ['tests/e2e/vscode/workspace/sample.cu'],
  settings: { 'warplens.interpreter': join(import.meta.dirname, 'sample_python.sh') },
  environment: { WARPLENS_ROOT: ROOT, WARPLENS_HOME: home },
});
let rows: ReturnType<typeof editor.page.locator>;

before(async () => {
  const script = `
import shutil
from pathlib import Path
from warplens_cutlass.store.build import build
build(Path(shutil.copytree("${ROOT}/tests/data/mini_corpus", "${home}/mini")), name="mini")
`;
  const built = spawnSync(join(ROOT, '.venv/bin/python'), ['-c', script], {
    env: { ...process.env, WARPLENS_HOME: home },
    encoding: 'utf8',
  });
  assert.equal(built.status, 0, built.stderr);
  await editor.open();
  await editor.openFile('sample.cu');
  await editor.ready();
  rows = editor.page.locator('.quick-input-list .monaco-list-row');
});
after(async () => {
  await editor.close();
  rmSync(home, { recursive: true, force: true });
});

async function find(): Promise<void> {
  await editor.command('Warplens: Find CuTe Abstraction or Example');
  await editor.page.locator('.quick-input-widget input').fill('cp.async wait');
  await editor.page.keyboard.press('Enter');
  await rows.filter({ hasText: 'cp_async_wait' }).first().waitFor();
}

test('results are shown while the list is gone through, and open at their line', async () => {
  await find();
  await editor.page.locator('.view-line', { hasText: 'cp_async' }).first().waitFor();
  await editor.screenshot('cute-results');
  await rows.filter({ hasText: 'cp_async_wait' }).first().click();
  await editor.page.locator('.tab.active', { hasText: 'copy_sm80.hpp' }).first().waitFor();
  await editor.page.locator('.statusbar-item', { hasText: /Ln 2\d/ }).waitFor();
  await editor.screenshot('cute-opened');
});

test('leaving the list goes back to the source', async () => {
  await editor.command('View: Close All Editors');
  await editor.openFile('sample.cu', 4);
  const tabs = await editor.page.locator('.tab').count();
  await find();
  await editor.page.locator('.tab', { hasText: '.hpp' }).first().waitFor();
  await editor.page.keyboard.press('Escape');
  await editor.page.locator('.tab.active', { hasText: 'sample.cu' }).first().waitFor();
  await until(
    async () => ((await editor.page.locator('.tab').count()) === tabs ? true : undefined),
    'nothing that was only looked at stays open',
  );
  await editor.screenshot('cute-left');
});

test('all of them can be peeked at from where one stands', async () => {
  await find();
  // the pointer rests on the list, whose hover would cover the button
  const peek = editor.page.locator('.quick-input-titlebar a[aria-label^="Peek"]');
  await peek.dispatchEvent('click');
  await editor.page.locator('.peekview-widget').waitFor();
  await editor.screenshot('cute-peek');
});
