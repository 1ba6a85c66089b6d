// SPDX-License-Identifier: Apache-2.0
// Tells the server which documents are on screen: they are checked first.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { DID_CHANGE_VISIBLE } from './protocol.ts';

export function activate(context: WarplensContext): void {
  const tell = (): void => {
    const shown = vscode.window.visibleTextEditors.map(({ document }) => document);
    const uris = shown.filter(({ languageId }) => languageId === 'cuda-cpp').map(({ uri }) => uri.toString());
    void context.server.running?.sendNotification(DID_CHANGE_VISIBLE, { uris });
  };
  context.extension.subscriptions.push(
    vscode.window.onDidChangeVisibleTextEditors(tell),
    context.server.onRunning(tell),
  );
}
