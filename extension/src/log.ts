// SPDX-License-Identifier: Apache-2.0
// Output channels: the client's, the server's, and the traffic between them, empty until its level is Trace.
import * as vscode from 'vscode';

export interface Logs {
  readonly client: vscode.LogOutputChannel;
  readonly server: vscode.LogOutputChannel;
  readonly trace: vscode.LogOutputChannel;
}

export function createLogs(extension: vscode.ExtensionContext): Logs {
  const open = (name: string): vscode.LogOutputChannel => {
    const channel = vscode.window.createOutputChannel(name, { log: true });
    extension.subscriptions.push(channel);
    return channel;
  };
  return {
    client: open('Warplens'),
    server: open('Warplens Server'),
    trace: open('Warplens Trace'),
  };
}
