// SPDX-License-Identifier: Apache-2.0
// Starts the features; each lives in its own file and gets the shared context.
import * as vscode from 'vscode';
import * as commands from './commands.ts';
import { Environment } from './environment.ts';
import { createLogs } from './log.ts';
import { manifest } from './manifest.ts';
import * as models from './models.ts';
import * as notice from './notice.ts';
import * as pages from './pages.ts';
import * as proposal from './proposal.ts';
import { Server } from './server.ts';
import { Status } from './status.ts';
import * as trust from './trust.ts';
import * as visible from './visible.ts';

let server: Server | undefined;

export async function activate(extension: vscode.ExtensionContext): Promise<void> {
  const logs = createLogs(extension);
  logs.client.info(`Warplens ${manifest(extension.extension).version} on VS Code ${vscode.version}`);
  const status = new Status();
  const environment = new Environment(extension, logs.client);
  server = new Server(extension, logs, environment, status);
  extension.subscriptions.push(
    status,
    environment,
    server,
    environment.onStep((message) =>
      status.show(message === undefined ? { state: 'noEnvironment' } : { state: 'settingUp', message }),
    ),
  );
  const context = { extension, logs, status, environment, server };
  commands.activate(context);
  models.activate(context);
  notice.activate(context);
  pages.activate(extension);
  proposal.activate(context);
  trust.activate(context);
  visible.activate(context);
  await server.restart('the extension was activated');
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
