// SPDX-License-Identifier: Apache-2.0
// Every feature of the language server as a person sees it, on a file whose findings are written in its text.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, processes, ROOT, until } from './editor.ts';

const PYTHON = join(import.meta.dirname, 'sample_python.sh');
const editor = new Editor({
  name: 'features',
  files: ['tests/e2e/vscode/workspace/sample.cu', 'tests/e2e/vscode/workspace/warplens.toml'],
  settings: { 'warplens.interpreter': PYTHON, 'warplens.trace.server': 'verbose' },
  environment: { WARPLENS_ROOT: ROOT },
});

before(async () => {
  await editor.open();
  await editor.openFile('sample.cu');
});
after(() => editor.close());

test('findings of both tiers are squiggles on their lines', async () => {
  await editor.ready();
  await editor.page.locator('.squiggly-warning').nth(1).waitFor();
  await editor.screenshot('sample-squiggle');
});

test('findings are in the Problems panel', async () => {
  await editor.page.keyboard.press('Control+Shift+M');
  const problems = editor.page.locator('.markers-panel .monaco-list-row');
  await problems.filter({ hasText: 'typed' }).waitFor();
  await problems.filter({ hasText: 'compiled' }).filter({ hasText: 'WL902' }).waitFor();
  await editor.screenshot('sample-problems');
  await editor.page.keyboard.press('Control+J');
});

test('a lens over each kernel says what bounds it and offers to optimize it', async () => {
  const lenses = editor.page.locator('.codelens-decoration');
  await lenses.filter({ hasText: 'memory-bound' }).nth(1).waitFor();
  await lenses.filter({ hasText: 'Optimize' }).nth(1).waitFor();
  await editor.screenshot('sample-lens');
});

test('one hint behind a signature shows what the settings file left on', async () => {
  const line = editor.page.locator('.view-line', { hasText: '__global__ void scale' });
  await line.filter({ hasText: /40\sregs/ }).waitFor();
  assert.doesNotMatch((await line.textContent()) ?? '', /occ\s/);
  await editor.screenshot('sample-inlay-hint');
});

test('a hover gives the evidence of a finding', async () => {
  const hover = await editor.hover('binary: compiled', 'compiled', 'WL902');
  assert.match((await hover.textContent()) ?? '', /sample 1\.0/);
  await editor.screenshot('sample-hover');
  await editor.page.keyboard.press('Escape');
});

test('the lens opens the evidence as a page', async () => {
  await editor.page.locator('.codelens-decoration a', { hasText: 'memory-bound' }).first().click();
  await editor.webview('every load is used once').waitFor();
  await editor.screenshot('sample-evidence');
  const link = editor.webview('every load is used once').getByRole('link', { name: 'line 4' });
  await link.click();
  await editor.page.locator('.tab.active', { hasText: 'sample.cu' }).first().waitFor();
  await editor.command('View: Close Editors in Other Groups');
});

test('a finding is ignored with the reason that is typed', async () => {
  await editor.openFile('sample.cu', 5, 30);
  await editor.action('Ignore WL902 here', 'Ignore WL902 here');
  await editor.answer('Ignore WL902 here', 'it is cold code', 'sample-ignore');
  // At once: nothing has to be compiled for it.
  await editor.page.locator('.squiggly-warning').nth(1).waitFor({ state: 'detached' });
  await editor.fileUntil('sample.cu', (text) => /ignore WL902: it is cold code/.test(text));
  await editor.page.keyboard.press('Control+Z');
  await editor.fileUntil('sample.cu', (text) => !text.includes('cold code'));
});

test('the outline lists the kernels', async () => {
  await editor.page.keyboard.press('Control+Shift+O');
  const rows = editor.page.locator('.quick-input-list .monaco-list-row');
  await rows.filter({ hasText: 'scale' }).waitFor();
  await rows.filter({ hasText: 'shift' }).waitFor();
  await editor.screenshot('sample-outline');
  await editor.page.keyboard.press('Escape');
});

test('Check This File Now says what it came to', async () => {
  await editor.command('Warplens: Check This File Now');
  const said = editor.notification('sample.cu: 2 findings in 2 kernels, compiled for sm_90.');
  await said.waitFor();
  await editor.screenshot('sample-checked');
  await editor.command('Notifications: Clear All Notifications');
});

test('an edit is marked, and its mark goes with an undo before anything is compiled', async () => {
  const text = readFileSync(join(editor.workspace, 'sample.cu'), 'utf8');
  const seconds = `97.${process.pid}6`;
  await editor.writeOutside('sample.cu', `${text}// sleep: 0.1\n`, 'sleep', 'visible');
  await editor.page.waitForTimeout(500);
  await editor.ready();
  const lens = editor.page.locator('.codelens-decoration', { hasText: 'memory-bound' }).first();
  // What is saved meanwhile is compiled for long: whatever shows before that is over comes from the text alone.
  await editor.openFile('sample.cu', text.split('\n').length, '// sleep: '.length + 1);
  await editor.page.keyboard.press('Shift+End');
  await editor.page.keyboard.type(seconds);
  await editor.openFile('sample.cu', 5, 13);
  await editor.page.keyboard.type('+1');
  await lens.filter({ hasText: 'before the edit' }).waitFor();
  await editor.screenshot('sample-edited');
  await editor.page.keyboard.press('Backspace');
  await editor.page.keyboard.press('Backspace');
  await lens.filter({ hasNotText: 'before the edit' }).waitFor();
  await editor.screenshot('sample-undone');
  // Only what is saved may be written over from outside.
  await editor.fileUntil('sample.cu', (saved) => saved === `${text}// sleep: ${seconds}\n`);
  await editor.writeOutside('sample.cu', text, 'sleep', 'detached');
  await editor.ready();
});

test('a quick fix is applied', async () => {
  await editor.openFile('sample.cu', 4, 30);
  await editor.action('Remove the mark');
  await editor.screenshot('sample-quick-fix-applied');
  await editor.save();
  await editor.fileUntil('sample.cu', (text) => !text.includes('// source: typed'));
  await until(
    async () => ((await editor.page.locator('.squiggly-warning').count()) === 1 ? true : undefined),
    'one left',
  );
});

test('a save shows progress, and its Cancel ends the compiler', async () => {
  const text = readFileSync(join(editor.workspace, 'sample.cu'), 'utf8');
  const seconds = `97.${process.pid}5`;
  await editor.writeOutside('sample.cu', `${text}// sleep: ${seconds}\n`, 'sleep', 'visible');
  const running = (): number => processes(new RegExp(`time\\.sleep\\(${seconds}\\)`));
  const progress = editor.page.locator('.statusbar-item', { hasText: 'checking sample.cu' }).last();
  await progress.waitFor();
  await editor.status.filter({ hasText: 'checking' }).waitFor();
  await until(() => (running() === 1 ? true : undefined), 'the compiler runs');
  await progress.click();
  const notification = editor.notification(/checking sample\.cu/);
  await notification.waitFor();
  await editor.screenshot('sample-progress');
  await notification.getByRole('button', { name: 'Cancel' }).click();
  await until(() => (running() === 0 ? true : undefined), 'the compiler is gone', 10);
  await editor.ready();
  await editor.screenshot('sample-progress-cancelled');
});

test('the status item leads to what can be done', async () => {
  await editor.status.click();
  const rows = editor.page.locator('.quick-input-list .monaco-list-row');
  await rows.filter({ hasText: 'Restart Server' }).waitFor();
  await editor.screenshot('sample-status');
  await rows.filter({ hasText: 'Print Debug Information' }).click();
  await until(
    () => /server: warplens \d/.exec(editor.log('Warplens')) ?? undefined,
    'debug information is printed',
  );
  assert.match(editor.log('Warplens'), new RegExp(`interpreter from setting: ${PYTHON}: taken`));
  // The panel takes the focus when it has opened, which would close what a later test opens.
  await editor.page.locator('.panel .output-view').waitFor();
});

test('the traffic with the server can be logged', async () => {
  await editor.command('Developer: Set Log Level...', 'Warplens Trace', 'Trace');
  await editor.openFile('sample.cu', 5);
  await until(
    () => /textDocument\/\w+/.exec(editor.log('Warplens Trace')) ?? undefined,
    'requests are in the trace',
  );
});

test('a server that crashes is started again, and left stopped when it keeps crashing', async () => {
  for (let crash = 1; crash <= 5; crash += 1) {
    await until(() => editor.log('Warplens').split('the server runs').length > 1 || undefined, 'it runs');
    const pid = await until(() => editor.child(/sample_service\.py$/), 'the server process');
    process.kill(pid, 'SIGKILL');
    await until(
      () =>
        editor.log('Warplens').includes(crash <= 4 ? `(${crash} of 4 restarts)` : 'left stopped') ||
        undefined,
      `crash ${crash} is noticed`,
    );
  }
  await editor.page.locator('.statusbar-item.error-kind', { hasText: 'Warplens' }).waitFor();
  await editor.screenshot('sample-crashed');
  await editor.command('Warplens: Restart Server');
  await editor.ready();
});
