// SPDX-License-Identifier: Apache-2.0
// What a bug report needs, printed where it can be read before it is sent.
import * as os from 'node:os';
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { manifest } from './manifest.ts';

export async function debugInformation(context: WarplensContext): Promise<void> {
  const { environment, extension, logs, server, status } = context;
  const choice = await environment.resolve();
  const announced = server.running?.initializeResult?.serverInfo;
  const settings = vscode.workspace.getConfiguration().get('warplens');
  const lines = [
    `extension ${manifest(extension.extension).version}, VS Code ${vscode.version}, ${vscode.env.appName}`,
    `${os.type()} ${os.release()} ${os.arch()}, remote: ${vscode.env.remoteName ?? 'no'}`,
    `workspace: ${vscode.workspace.workspaceFolders?.length ?? 0} folders, trusted: ${vscode.workspace.isTrusted}`,
    `status: ${status.state}, ${status.sentence}`,
    `server: ${announced ? `${announced.name} ${announced.version ?? ''}` : 'not running'}`,
    `bundled wheel: ${environment.bundle?.wheel ?? 'none'}`,
    ...choice.reasons.map((reason) => `interpreter from ${reason}`),
    `settings: ${JSON.stringify(settings)}`,
  ];
  logs.client.info(['debug information', ...lines].join('\n  '));
  logs.client.show();
}
