// SPDX-License-Identifier: Apache-2.0
// Optimize and Fix and prove: progress, cancel, the diff with its proof, apply; without a GPU the reason why not.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, ROOT, processes, until } from './editor.ts';

const home = mkdtempSync(join(tmpdir(), 'warplens-home-'));
const editor = new Editor({
  name: 'proposal',
  files: ['tests/e2e/vscode/workspace/proposal.cu'],
  settings: { 'warplens.interpreter': join(import.meta.dirname, 'sample_python.sh') },
  // A home of its own, so that there is something that the doctor's buttons would bring.
  environment: { WARPLENS_ROOT: ROOT, WARPLENS_HOME: home },
});
const path = join(editor.workspace, 'proposal.cu');
let diff: ReturnType<typeof editor.page.locator>;
// Of this run alone: another may go on beside it.
const SECONDS = `98.${process.pid}5`;
const search = (): number => processes(new RegExp(`time\\.sleep\\(${SECONDS}\\)`));

before(async () => {
  await editor.open();
  writeFileSync(path, readFileSync(path, 'utf8').replaceAll('98.5', SECONDS));
  diff = editor.page.locator('.monaco-diff-editor');
  await editor.openFile('proposal.cu', 5, 10);
});
after(async () => {
  await editor.close();
  rmSync(home, { recursive: true, force: true });
});

test('the lens starts a search, whose Cancel ends its processes', async () => {
  // Its compilation, which takes as long, goes on beside the search.
  await until(() => search() === 1 || undefined, 'the file is compiled');
  const optimize = editor.page.locator('.codelens-decoration a', { hasText: 'Optimize' });
  await optimize.click();
  const progress = editor.notification(/optimizing scale: judging 1 of 2/);
  await progress.waitFor();
  await editor.status.filter({ hasText: 'optimizing' }).waitFor();
  await until(() => search() === 2 || undefined, 'the search runs');
  await editor.screenshot('optimize-progress');
  await progress.getByRole('button', { name: 'Cancel' }).click();
  await until(() => search() === 1 || undefined, 'the search is gone', 10);
  assert.equal(await diff.count(), 0);
});

test('what it finds is a diff with its proof beside it, and Apply writes it', async () => {
  await rewrite((text) => text.replaceAll(SECONDS, '0.1'));
  await until(() => search() === 0 || undefined, 'a changed file ends the compilation of the older one', 10);
  await editor.command('Warplens: Optimize Kernel at Cursor');
  await diff.waitFor();
  await editor.webview('1.42× in 20 rounds').waitFor();
  await editor.screenshot('proposal');
  const whole = await editor.page.locator('.part.editor').boundingBox();
  const shown = await diff.boundingBox();
  assert.ok(whole && shown && shown.width > 0.95 * whole.width, 'the diff has the whole width');
  await editor.titleButton('Apply').click();
  await editor.fileUntil('proposal.cu', (text) => text.includes('a[0] = 2;'));
  await diff.waitFor({ state: 'detached' });
  await editor.screenshot('proposal-applied');
});

test('a fix that was judged slower is said to be, and Dismiss leaves the file alone', async () => {
  const before = await editor.fileUntil('proposal.cu', (text) => text.includes('a[0] = 2;'));
  await editor.openFile('proposal.cu', 5, 22);
  await editor.action('Fix and prove: Remove the mark');
  await diff.waitFor();
  await editor.page.locator('.tab', { hasText: 'Remove the mark: slower' }).waitFor();
  await editor.screenshot('fix-and-prove');
  await editor.titleButton('Dismiss').click();
  await diff.waitFor({ state: 'detached' });
  assert.equal(readFileSync(path, 'utf8'), before);
});

test('without a GPU the edit is offered unproven, with the reason', async () => {
  await rewrite((text) => `${text}// no GPU\n`);
  await editor.openFile('proposal.cu', 4, 6);
  await editor.action('Optimize this kernel');
  await diff.waitFor();
  await editor.webview('there is no CUDA GPU in this machine').waitFor();
  await editor.screenshot('unproven');
  // The buttons are there after a reload too, and while the proof has the focus.
  await editor.page.reload();
  await editor.page.locator('.monaco-workbench .statusbar').waitFor();
  await diff.waitFor();
  await editor.titleButton('Apply').waitFor();
  await editor.webview('there is no CUDA GPU in this machine').waitFor();
  await editor.screenshot('unproven-after-reload');
  await editor.ready();
  await editor.titleButton('Apply').click();
  await editor.fileUntil('proposal.cu', (text) => !text.includes('// source: typed'));
  await diff.waitFor({ state: 'detached' });
  await until(
    async () => ((await editor.page.locator('.editor-group-container').count()) === 1 ? true : undefined),
    'no group is left behind',
  );
});

test('where no finding asks for an edit, nothing has failed and the doctor is a button away', async () => {
  await rewrite((text) => text.replaceAll('// source: typed', ''));
  await editor.command('Warplens: Optimize Kernel at Cursor');
  const said = editor.notification('scale: no finding asks for an edit');
  await said.waitFor();
  await editor.screenshot('optimize-nothing-asked');
  assert.equal(await editor.page.locator('.notification-toast .codicon-error').count(), 0);
  await said.getByRole('button', { name: 'What is missing here' }).click();
  await editor.webview('What Warplens does').waitFor();
  await editor.screenshot('doctor-from-optimize');
  // Its buttons say what they would download, and wait for the answer.
  await editor.webview('What Warplens does').getByRole('link', { name: 'Fetch CUTLASS' }).click();
  const question = editor.page.locator('.monaco-dialog-box', { hasText: 'nvidia-cutlass' });
  await question.waitFor();
  await editor.screenshot('doctor-button');
  await question.getByRole('button', { name: 'Cancel' }).click();
});

/** Changes the file on disk, and waits until the editor shows it and the server has checked it. */
async function rewrite(change: (text: string) => string): Promise<void> {
  const text = change(readFileSync(path, 'utf8'));
  await editor.writeOutside('proposal.cu', text, text.trim().split('\n').at(-1) ?? '', 'visible');
  await editor.page.waitForTimeout(500);
  await editor.ready();
}
