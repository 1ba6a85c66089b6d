// SPDX-License-Identifier: Apache-2.0
// A workspace that is not trusted is parsed, and nothing in it is built or run, until trust is granted.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, ROOT } from './editor.ts';

const editor = new Editor({
  name: 'trust',
  files: ['tests/e2e/vscode/workspace/sample.cu'],
  settings: {
    'warplens.interpreter': join(import.meta.dirname, 'sample_python.sh'),
    'security.workspace.trust.startupPrompt': 'never',
  },
  environment: { WARPLENS_ROOT: ROOT },
  asksForTrust: true,
});

before(() => editor.open());
after(() => editor.close());

test('before trust only the source tier speaks', async () => {
  await editor.openFile('sample.cu');
  await editor.status.filter({ hasText: 'not trusted' }).waitFor();
  await editor.page.locator('.squiggly-warning').first().waitFor();
  await editor.page.waitForTimeout(1_000);
  assert.equal(await editor.page.locator('.squiggly-warning').count(), 1);
  await editor.screenshot('untrusted');
});

test('granting trust brings the other tiers without a restart', async () => {
  await editor.command('Workspaces: Manage Workspace Trust');
  await editor.page.getByRole('button', { name: 'Trust', exact: true }).first().click();
  await editor.openFile('sample.cu');
  await editor.page.locator('.squiggly-warning').nth(1).waitFor();
  await editor.ready();
  assert.equal(editor.log('Warplens').split('the server runs').length, 2);
});
