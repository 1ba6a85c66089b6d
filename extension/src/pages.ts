// SPDX-License-Identifier: Apache-2.0
// Markdown pages the server returns (the doctor's answer, a finding's evidence, a proof), beside the source. Links to
// places in files open them there.
import * as vscode from 'vscode';
import { type Evidence, FETCH_CUTLASS, SETUP_TOOLCHAIN } from './protocol.ts';

export const PAGE = 'warplens.page';
const OPEN_AT = 'warplens.openAt';

export function activate(extension: vscode.ExtensionContext): void {
  extension.subscriptions.push(
    vscode.commands.registerCommand(OPEN_AT, (uri: string, line: number) => openAt(uri, line)),
  );
}

/** Shows a page in a tab of its own, beside the editor unless told; the caller may close it. */
export async function showPage(
  page: Evidence,
  viewColumn = vscode.ViewColumn.Beside,
): Promise<vscode.WebviewPanel> {
  const panel = vscode.window.createWebviewPanel(
    PAGE,
    page.title,
    { viewColumn, preserveFocus: true },
    { enableCommandUris: [OPEN_AT, SETUP_TOOLCHAIN, FETCH_CUTLASS], enableFindWidget: true },
  );
  const body = await vscode.commands.executeCommand<string>('markdown.api.render', linked(page.markdown));
  panel.webview.html = document(page.title, body);
  return panel;
}

export async function openAt(
  uri: string,
  line: number,
  options: vscode.TextDocumentShowOptions = { viewColumn: vscode.ViewColumn.One },
): Promise<void> {
  const at = new vscode.Range(line - 1, 0, line - 1, 0);
  await vscode.window.showTextDocument(vscode.Uri.parse(uri), { ...options, selection: at });
}

/** A webview opens no `file:` link; a command does. */
function linked(markdown: string): string {
  return markdown.replace(/\]\((file:[^)#\s]+)(?:#L(\d+))?\)/g, (_, uri: string, line?: string) => {
    const args = encodeURIComponent(JSON.stringify([uri, Number(line ?? 1)]));
    return `](command:${OPEN_AT}?${args.replaceAll('(', '%28').replaceAll(')', '%29')})`;
  });
}

function document(title: string, body: string): string {
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:";
  return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escaped(title)}</title>
<style>
body { padding: 0 1.5em 2em; line-height: 1.5; max-width: 60em; }
table { border-collapse: collapse; margin: 0.6em 0; max-width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.25em 0.8em; overflow-wrap: anywhere; min-width: 4em;
  border-bottom: 1px solid var(--vscode-widget-border, #8884); }
pre { padding: 0.6em 0.8em; overflow-x: auto; background: var(--vscode-textCodeBlock-background); }
code { font-family: var(--vscode-editor-font-family); font-size: var(--vscode-editor-font-size); }
</style></head><body>${body}</body></html>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
