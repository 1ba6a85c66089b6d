// Runs the server's commands. Long ones get a notification with the server's progress and a Cancel that ends
// the work; pages that commands return are shown.
import * as vscode from 'vscode';
import {
  type ExecuteCommandParams,
  ExecuteCommandRequest,
  type LanguageClient,
  WorkDoneProgress,
} from 'vscode-languageclient/node';
import { showPage } from './pages.ts';
import { DOCTOR, type Evidence, FIX_AND_PROVE, OPTIMIZE, SHOW_EVIDENCE } from './protocol.ts';

const LONG = new Map([
  [OPTIMIZE, 'Optimizing'],
  [FIX_AND_PROVE, 'Proving the fix'],
  [DOCTOR, 'Asking the doctor'],
]);

let tokens = 0;

/** The middleware of every command the server announced, from a lens, an action or the palette. */
export async function executeCommand(
  client: LanguageClient | undefined,
  command: string,
  args: unknown[],
): Promise<unknown> {
  if (client === undefined) return undefined;
  const title = LONG.get(command);
  const params: ExecuteCommandParams = { command, arguments: args as never };
  const result: unknown =
    title === undefined
      ? await client.sendRequest(ExecuteCommandRequest.type, params)
      : await withProgress(client, title, params);
  if ((command === SHOW_EVIDENCE || command === DOCTOR) && result) await showPage(result as Evidence);
  return result;
}

function withProgress(
  client: LanguageClient,
  title: string,
  params: ExecuteCommandParams,
): Thenable<unknown> {
  const workDoneToken = `warplens-client-${++tokens}`;
  const location = vscode.ProgressLocation.Notification;
  return vscode.window.withProgress({ title, location, cancellable: true }, async (progress, token) => {
    let reached = 0;
    const listener = client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
      if (value.kind === 'end') return;
      const percentage = value.percentage ?? reached;
      progress.report({ message: value.message ?? '', increment: Math.max(0, percentage - reached) });
      reached = Math.max(reached, percentage);
    });
    try {
      // A cancelled token sends `$/cancelRequest`; the server then ends the process tree and answers.
      const result: unknown = await client.sendRequest(
        ExecuteCommandRequest.type,
        { ...params, workDoneToken },
        token,
      );
      return result;
    } catch (error) {
      if (token.isCancellationRequested) return null;
      throw error;
    } finally {
      listener.dispose();
    }
  });
}
