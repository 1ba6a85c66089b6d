// SPDX-License-Identifier: Apache-2.0
// What the server has to say to somebody who asked for something, with buttons that lead on.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { NOTICE, type Notice } from './protocol.ts';

export function activate(context: WarplensContext): void {
  context.extension.subscriptions.push(
    context.server.onStarting((client) => {
      client.onNotification(NOTICE, (notice: Notice) => show(notice));
    }),
  );
}

async function show({ message, actions }: Notice): Promise<void> {
  const titles = actions.map(({ title }) => title);
  const chosen = await vscode.window.showInformationMessage(message, ...titles);
  const command = actions.find(({ title }) => title === chosen)?.command;
  if (command?.startsWith('warplens.')) await vscode.commands.executeCommand(command);
}
