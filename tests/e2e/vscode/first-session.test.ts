// SPDX-License-Identifier: Apache-2.0
// A person's first session, with nothing of Warplens on the machine: consent, an environment from the wheel the
// extension carries, and the findings of a real kernel, compiled by a real nvcc.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, ROOT, subfolders, until } from './editor.ts';

const editor = new Editor({ name: 'first-session', files: ['examples/first/transpose.cu'] });

const LINES = readFileSync(join(ROOT, 'examples/first/transpose.cu'), 'utf8').split('\n').length;

before(() => editor.open());
after(() => editor.close());

test('a .cu file activates the extension, which asks before it installs anything', async () => {
  await editor.openFile('transpose.cu');
  await editor.notification(/Create its own environment\?/).waitFor();
  await editor.status.filter({ hasText: 'set up' }).waitFor();
  await editor.screenshot('consent');
  assert.deepEqual(subfolders(join(editor.storage, 'environments')), []);
  assert.match(editor.log('Warplens'), /managed environment: passed over, it was not created/);
});

test('the walkthrough asks with a question that stays', async () => {
  await editor.command('Notifications: Clear All Notifications');
  await editor.command('Welcome: Open Walkthrough...', 'Get started with Warplens');
  const step = editor.page.locator('.getting-started-step', { hasText: 'A Python environment' });
  await step.getByRole('button', { name: 'Create Python environment' }).click();
  const question = editor.page.locator('.monaco-dialog-box', { hasText: 'Create its own environment?' });
  await question.waitFor();
  await editor.page.waitForTimeout(12_000); // longer than a toast is shown
  await editor.screenshot('consent-from-walkthrough');
  await question.getByRole('button', { name: 'Create Environment' }).click();
  await editor.status.filter({ hasText: 'setting up' }).waitFor();
  await editor.screenshot('environment-in-the-making');
});

test('with consent it makes its own environment from the wheel it carries', async () => {
  const environment = await until(
    () =>
      subfolders(join(editor.storage, 'environments'))
        .map((name) => join(editor.storage, 'environments', name))
        .find((folder) => existsSync(join(folder, 'warplens-environment.json'))),
    'the environment is there',
    240,
  );
  assert.ok(existsSync(join(environment, 'bin', 'python')));
  await until(
    () => /interpreter from managed environment: .*: taken/.test(editor.log('Warplens')) || undefined,
    'it is taken',
  );
  await editor.page
    .locator('.getting-started-step', { hasText: 'A Python environment' })
    .locator('.codicon-getting-started-step-checked')
    .waitFor();
  await editor.screenshot('walkthrough-ticked');
  await editor.openFile('transpose.cu');
});

test('a real kernel has its findings on their lines', async () => {
  await editor.ready();
  await editor.page.locator('.squiggly-warning').first().waitFor();
  await editor.goTo(34);
  await editor.page.locator('.codelens-decoration', { hasText: 'memory-bound' }).waitFor();
  await editor.screenshot('squiggle');
  await editor.page.keyboard.press('Control+Shift+M');
  const problem = editor.page.locator('.markers-panel .monaco-list-row', { hasText: 'WL108' });
  await problem.filter({ hasText: '32-way bank conflict' }).waitFor();
  await editor.screenshot('problems');
  await editor.page.keyboard.press('Control+J');
});

test('its lens and hints say what bounds it and what it takes', async () => {
  await editor.goTo(18);
  await editor.page.locator('.codelens-decoration', { hasText: 'memory-bound' }).waitFor();
  await editor.screenshot('lens');
  const line = editor.page.locator('.view-line', { hasText: '__global__ void transpose' });
  await line.filter({ hasText: /\d+\sregs/ }).waitFor();
  assert.doesNotMatch((await line.textContent()) ?? '', /occ\s/, 'the lens says it');
  await editor.screenshot('inlay-hint');
});

test('its hover shows the evidence and where it comes from', async () => {
  await editor.goTo(34);
  const hover = await editor.hover('= tile[threadIdx.x]', 'tile', 'WL108');
  assert.match((await hover.textContent()) ?? '', /shared-memory wavefronts per request/);
  await editor.screenshot('hover');
  await editor.page.keyboard.press('Escape');
});

test('without a GPU Optimize offers an edit as a diff, unproven, and says why', async () => {
  await editor.page.locator('.codelens-decoration a', { hasText: 'Optimize' }).click();
  await editor.page.locator('.monaco-diff-editor').waitFor();
  await editor.webview('Unproven: nothing can be measured').waitFor();
  await editor.webview('1.7× expected (at most 2.5×)').waitFor();
  await editor.screenshot('optimize-unproven');
  await editor.titleButton('Dismiss').click();
  await editor.page.locator('.monaco-diff-editor').waitFor({ state: 'detached' });
});

test('its quick fix is applied, and the finding is gone', async () => {
  await editor.openFile('transpose.cu', 34, 50);
  await editor.action('Pad the rows of tile');
  const text = await editor.fileUntil('transpose.cu', (now) => /tile\[kTile\]\[kTile \+ 1\]/.test(now));
  assert.equal(text.split('\n').length, LINES);
  await editor.told(editor.page.locator('.squiggly-warning').first().waitFor({ state: 'detached' }));
  // And stays gone once the kernel is compiled again.
  await editor.page.locator('.codelens-decoration', { hasText: /occupancy \d+%/ }).waitFor();
  await editor.ready();
  assert.equal(await editor.page.locator('.squiggly-warning').count(), 0);
  await editor.screenshot('quick-fix-applied');
});

test('what does not compile is marked on its token', async () => {
  const text = readFileSync(join(editor.workspace, 'transpose.cu'), 'utf8');
  const broken = text.replace('x < width &&', 'x < widht &&');
  await editor.writeOutside('transpose.cu', broken, 'widht', 'visible');
  await editor.status.filter({ hasText: 'does not compile' }).waitFor();
  await editor.page.locator('.squiggly-error').first().waitFor();
  const marked = await editor.page.locator('.squiggly-error').first().boundingBox();
  const word = await editor.page
    .locator('.view-line span > span', { hasText: 'widht' })
    .first()
    .boundingBox();
  assert.ok(marked && word && Math.abs(marked.width - word.width) < word.width, 'no more than a word');
  await editor.screenshot('compile-error');
  await editor.writeOutside('transpose.cu', text, 'widht', 'detached');
  await editor.ready();
});

test('the doctor says what is there and what is missing', async () => {
  await editor.command('Warplens: Doctor');
  await editor.webview('All that needs no GPU works here').waitFor();
  await editor.screenshot('doctor');
});
