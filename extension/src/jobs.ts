// SPDX-License-Identifier: Apache-2.0
// Runs the server's commands. Long ones get a notification with the server's progress and a Cancel that ends
// the work; pages that commands return are shown.
import * as vscode from 'vscode';
import {
  type ExecuteCommandParams,
  ExecuteCommandRequest,
  type LanguageClient,
  WorkDoneProgress,
  type WorkDoneProgressBegin,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from 'vscode-languageclient/node';
import { showResults } from './cute.ts';
import { showPage } from './pages.ts';
import {
  type CutePage,
  DOCTOR,
  type Evidence,
  FIX_AND_PROVE,
  OPTIMIZE,
  SETUP,
  SHOW_CUTE,
  SHOW_EVIDENCE,
} from './protocol.ts';

/** Commands that take long. */
const LONG = [OPTIMIZE, FIX_AND_PROVE, DOCTOR, SETUP, SHOW_CUTE];
/** Commands that return a page to show. */
const PAGES = [SHOW_EVIDENCE, DOCTOR];
/** Commands that measure the file as it is on disk. */
const MEASURING = [OPTIMIZE, FIX_AND_PROVE];

let tokens = 0;

/** The middleware of every command the server announced, from a lens, an action or the palette. */
export async function executeCommand(
  client: LanguageClient | undefined,
  command: string,
  args: unknown[],
): Promise<unknown> {
  if (client === undefined) return undefined;
  if (MEASURING.includes(command) && !(await saved(args[0] as { readonly uri: string }))) return undefined;
  const params: ExecuteCommandParams = { command, arguments: args as never };
  const result: unknown = LONG.includes(command)
    ? await withProgress(client, params)
    : await client.sendRequest(ExecuteCommandRequest.type, params);
  if (PAGES.includes(command) && result) await showPage(result as Evidence);
  if (command === SHOW_CUTE && result) showResults(result as CutePage);
  return result;
}

/** Whether the document is as on disk; asks before it saves it. */
async function saved(target: { readonly uri: string }): Promise<boolean> {
  const uri = vscode.Uri.parse(target.uri).toString();
  const document = vscode.workspace.textDocuments.find((open) => open.uri.toString() === uri);
  if (!document?.isDirty) return true;
  const save = 'Save and Continue';
  const question = 'The file has unsaved changes; what is measured is the file on disk.';
  return (await vscode.window.showInformationMessage(question, save)) === save && document.save();
}

function withProgress(client: LanguageClient, params: ExecuteCommandParams): Thenable<unknown> {
  const workDoneToken = `warplens-client-${++tokens}`;
  const location = vscode.ProgressLocation.Notification;
  return vscode.window.withProgress({ location, cancellable: true }, async (progress, token) => {
    progress.report({ message: 'Warplens: starting', increment: 0 });
    const listener = client.onProgress(WorkDoneProgress.type, workDoneToken, report(progress));
    try {
      // A cancelled token sends `$/cancelRequest`; the server then ends the process tree and answers.
      const sent = { ...params, workDoneToken };
      return (await client.sendRequest(ExecuteCommandRequest.type, sent, token)) as unknown;
    } catch (error) {
      if (token.isCancellationRequested) return null;
      throw error;
    } finally {
      listener.dispose();
    }
  });
}

type Value = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

/** Shows the server's progress, whose title comes with its beginning and whose percentages are totals. */
function report(progress: vscode.Progress<{ message: string; increment: number }>): (value: Value) => void {
  let title = 'Warplens';
  let reached = 0;
  return (value) => {
    if (value.kind === 'end') return;
    if (value.kind === 'begin') title = value.title;
    const percentage = Math.max(reached, value.percentage ?? 0);
    const message = value.message ? `${title}: ${value.message}` : title;
    progress.report({ message, increment: percentage - reached });
    reached = percentage;
  };
}
