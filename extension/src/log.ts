// Two output channels, client and server, and a third for the protocol that opens once tracing is asked for.
import * as vscode from 'vscode';

export interface Logs {
  readonly client: vscode.LogOutputChannel;
  readonly server: vscode.LogOutputChannel;
  /** Made on first use: most people never trace. */
  trace(): vscode.LogOutputChannel;
}

export function createLogs(extension: vscode.ExtensionContext): Logs {
  const open = (name: string): vscode.LogOutputChannel => {
    const channel = vscode.window.createOutputChannel(name, { log: true });
    extension.subscriptions.push(channel);
    return channel;
  };
  let trace: vscode.LogOutputChannel | undefined;
  return {
    client: open('Warplens'),
    server: open('Warplens Server'),
    trace: () => {
      trace ??= open('Warplens Trace');
      return trace;
    },
  };
}
