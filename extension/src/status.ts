// SPDX-License-Identifier: Apache-2.0
// The status item: what the server is doing, why it is limited, and a click through to what can be done.
import * as vscode from 'vscode';
import type { Interpreter } from './choose.ts';
import type { StatusParams } from './protocol.ts';

type State = StatusParams['state'] | 'starting' | 'noEnvironment' | 'settingUp';

export interface Shown {
  readonly state: State;
  /** What limits it, in two words. */
  readonly label?: string;
  readonly message?: string;
  readonly remedy?: string;
  /** The document it speaks of; none for the server as a whole. */
  readonly uri?: string;
}

const TEXT: Record<State, string> = {
  starting: '$(sync~spin) Warplens',
  ready: '$(dashboard) Warplens',
  checking: '$(sync~spin) Warplens: checking',
  optimizing: '$(sync~spin) Warplens: optimizing',
  limited: '$(dashboard) Warplens',
  error: '$(error) Warplens',
  noEnvironment: '$(warning) Warplens: set up',
  settingUp: '$(sync~spin) Warplens: setting up',
};

/** Of a document that the server has not spoken of yet. */
const AWAITED: Shown = { state: 'checking', message: 'The file is about to be checked.' };

const SAYS: Record<State, string> = {
  starting: 'The server is starting.',
  ready: 'Ready.',
  checking: 'Compiling and reading the kernels of the saved file.',
  optimizing: 'Searching for a faster kernel.',
  limited: 'Not everything is available.',
  error: 'The last job failed.',
  noEnvironment: 'No Python environment with Warplens was found.',
  settingUp: 'Its Python environment is being made.',
};

export class Status implements vscode.Disposable {
  interpreter: Interpreter | undefined;
  /** Of the server as a whole. */
  private whole: Shown = { state: 'starting' };
  /** Of each document by its URI. */
  private readonly documents = new Map<string, Shown>();
  private readonly item = vscode.window.createStatusBarItem(
    'warplens.status',
    vscode.StatusBarAlignment.Right,
    90,
  );
  private readonly subscriptions = [
    vscode.window.onDidChangeVisibleTextEditors(() => this.update()),
    vscode.window.onDidChangeActiveTextEditor(() => this.update()),
    vscode.workspace.onDidCloseTextDocument(({ uri }) => this.documents.delete(uri.toString())),
  ];

  constructor() {
    this.item.name = 'Warplens';
    this.item.command = 'warplens.statusActions';
    this.update();
  }

  dispose(): void {
    this.item.dispose();
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** The server's own, which goes before what it says of a document; that of the file in sight otherwise. */
  private get shown(): Shown {
    const active = vscode.window.activeTextEditor?.document;
    if (this.whole.state !== 'ready' || active?.languageId !== 'cuda-cpp') return this.whole;
    const awaited = active.uri.scheme === 'file' ? AWAITED : this.whole;
    return this.documents.get(active.uri.toString()) ?? awaited;
  }

  get state(): State {
    return this.whole.state;
  }

  get sentence(): string {
    return this.shown.message || SAYS[this.shown.state];
  }

  show(shown: Shown): void {
    if (shown.uri) {
      if (this.documents.get(key(shown.uri))?.state === 'checking') this.tick(shown.state);
      this.documents.set(key(shown.uri), shown);
    } else {
      this.whole = shown;
      if (shown.state === 'starting') this.documents.clear();
    }
    this.update();
  }

  /** The walkthrough's steps that a check shows to be done: without anything lacking, the toolchain is there too. */
  private tick(state: State): void {
    const checked = state === 'ready' || state === 'limited';
    if (checked) void vscode.commands.executeCommand('setContext', 'warplens.checked', true);
    if (state === 'ready') void vscode.commands.executeCommand('setContext', 'warplens.toolchain', true);
  }

  private update(): void {
    const { state, label, remedy } = this.shown;
    this.item.text = label ? `${TEXT[state]}: ${label}` : TEXT[state];
    const tooltip = new vscode.MarkdownString(`**Warplens** — ${this.sentence}`);
    if (remedy) tooltip.appendMarkdown(`\n\n${remedy}`);
    if (this.interpreter) {
      tooltip.appendMarkdown(
        `\n\nWarplens ${this.interpreter.warplens}, Python ${this.interpreter.python}\n\n`,
      );
      tooltip.appendText(`${this.interpreter.command} (${this.interpreter.origin})`);
    }
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: `Warplens: ${this.sentence}` };
    const colour = { error: 'errorBackground', noEnvironment: 'warningBackground' }[state as string];
    this.item.backgroundColor = colour ? new vscode.ThemeColor(`statusBarItem.${colour}`) : undefined;
    if (this.relevant()) this.item.show();
    else this.item.hide();
  }

  private relevant(): boolean {
    const seen = vscode.window.visibleTextEditors.some((editor) => editor.document.languageId === 'cuda-cpp');
    return seen || ['starting', 'optimizing', 'noEnvironment', 'settingUp'].includes(this.shown.state);
  }
}

/** The server writes a URI as the client did, which is not always as the editor does. */
function key(uri: string): string {
  return vscode.Uri.parse(uri).toString();
}
