// SPDX-License-Identifier: Apache-2.0
// What CUTLASS has for words or code: a list that shows each place while it is gone through, and opens it there.
import * as vscode from 'vscode';
import { openAt, showPage } from './pages.ts';
import type { CutePage, CuteResult } from './protocol.ts';

interface Row extends vscode.QuickPickItem {
  readonly result: CuteResult;
}

const PEEK: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon('eye'),
  tooltip: 'Peek at all of them from here',
};
const PAGE: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon('book'),
  tooltip: 'Show all of them on a page',
};

export function showResults(page: CutePage): void {
  if (page.results.length === 0) {
    void vscode.window.showInformationMessage(`${page.title}: nothing was found.`);
    return;
  }
  const before = vscode.window.activeTextEditor;
  const pick = vscode.window.createQuickPick<Row>();
  const tabs = openFiles();
  let showing: Promise<unknown> = Promise.resolve();
  /** What follows once the list is gone; without anything one is back where one was. */
  let next: (() => unknown) | undefined;
  let opened = false;
  pick.title = page.title;
  pick.placeholder = 'Go through the places; Enter opens one';
  pick.matchOnDescription = true;
  pick.matchOnDetail = true;
  pick.buttons = [PEEK, PAGE];
  pick.items = page.results.map(row);
  pick.onDidChangeActive(([active]) => {
    if (active) showing = show(active.result, true);
  });
  pick.onDidAccept(() => {
    opened = true;
    const [chosen] = pick.selectedItems;
    pick.hide();
    if (chosen) void show(chosen.result, false);
  });
  pick.onDidTriggerButton((button) => {
    next = () => (button === PAGE ? showPage(page) : peek(before, page.results));
    pick.hide();
  });
  pick.onDidHide(async () => {
    pick.dispose();
    await showing;
    if (!opened) await leave(before, page.results, tabs);
    await next?.();
  });
  pick.show();
}

/** Goes back to where one was, and closes what was only shown while the list was gone through. */
async function leave(
  before: vscode.TextEditor | undefined,
  results: readonly CuteResult[],
  tabs: ReadonlySet<string>,
): Promise<void> {
  if (before) await vscode.window.showTextDocument(before.document, before.viewColumn);
  const shown = new Set(results.map(({ uri }) => vscode.Uri.parse(uri).toString()));
  const previews = vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .filter((tab) => tab.isPreview && !tab.isDirty && shown.has(fileOf(tab)) && !tabs.has(fileOf(tab)));
  await vscode.window.tabGroups.close(previews, true);
}

function openFiles(): ReadonlySet<string> {
  return new Set(vscode.window.tabGroups.all.flatMap((group) => group.tabs).map(fileOf));
}

function fileOf(tab: vscode.Tab): string {
  return tab.input instanceof vscode.TabInputText ? tab.input.uri.toString() : '';
}

function row(result: CuteResult): Row {
  const file = vscode.Uri.parse(result.uri).path.split('/').slice(-2).join('/');
  return {
    label: result.symbol || file,
    description: `${result.kind} · ${file}:${result.line}`,
    detail: result.why,
    result,
  };
}

function show(result: CuteResult, preserveFocus: boolean): Promise<void> {
  return openAt(result.uri, result.line, { preview: true, preserveFocus });
}

async function peek(editor: vscode.TextEditor | undefined, results: readonly CuteResult[]): Promise<void> {
  if (editor === undefined) return;
  const places = results.map(
    ({ uri, line }) => new vscode.Location(vscode.Uri.parse(uri), new vscode.Position(line - 1, 0)),
  );
  await vscode.window.showTextDocument(editor.document, editor.viewColumn);
  const here = editor.selection.active;
  await vscode.commands.executeCommand('editor.action.peekLocations', editor.document.uri, here, places);
}
