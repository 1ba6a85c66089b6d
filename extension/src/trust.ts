// SPDX-License-Identifier: Apache-2.0
// An untrusted workspace is parsed and nothing in it is built or run; granting trust tells the server.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { DID_CHANGE_TRUST } from './protocol.ts';

export function activate(context: WarplensContext): void {
  context.extension.subscriptions.push(
    vscode.workspace.onDidGrantWorkspaceTrust(async () => {
      const client = context.server.running;
      if (client !== undefined) await client.sendNotification(DID_CHANGE_TRUST, { trusted: true });
      else await context.server.restart('the workspace is trusted now');
    }),
  );
}
