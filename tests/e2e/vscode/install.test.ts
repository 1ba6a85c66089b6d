// The extension on a machine that has Python and nothing of Warplens.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Editor, subfolders, until } from './editor.ts';

const editor = new Editor({ name: 'install', files: ['examples/first/transpose.cu'] });

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

test('with consent it makes its own environment from the wheel it carries', async () => {
  await editor
    .notification(/Create its own environment\?/)
    .getByRole('button', { name: 'Create Environment' })
    .click();
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
});
