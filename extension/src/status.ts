// SPDX-License-Identifier: Apache-2.0
// The status item: what the server is doing, why it is limited, and a click through to what can be done.
import * as vscode from 'vscode';
import type { Interpreter } from './choose.ts';
import type { StatusParams } from './protocol.ts';

type State = StatusParams['state'] | 'starting' | 'noEnvironment';

export interface Shown {
  readonly state: State;
  readonly message?: string;
  readonly remedy?: string;
}

const TEXT: Record<State, string> = {
  starting: '$(sync~spin) Warplens',
  ready: '$(dashboard) Warplens',
  checking: '$(sync~spin) Warplens: checking',
  optimizing: '$(sync~spin) Warplens: optimizing',
  limited: '$(dashboard) Warplens: limited',
  error: '$(error) Warplens',
  noEnvironment: '$(warning) Warplens: set up',
};

const SAYS: Record<State, string> = {
  starting: 'The server is starting.',
  ready: 'Ready.',
  checking: 'Compiling and reading the kernels of the saved file.',
  optimizing: 'Searching for a faster kernel.',
  limited: 'Not everything is available.',
  error: 'The last job failed.',
  noEnvironment: 'No Python environment with Warplens was found.',
};

export class Status implements vscode.Disposable {
  interpreter: Interpreter | undefined;
  private shown: Shown = { state: 'starting' };
  private readonly item = vscode.window.createStatusBarItem(
    'warplens.status',
    vscode.StatusBarAlignment.Right,
    90,
  );
  private readonly subscription = vscode.window.onDidChangeVisibleTextEditors(() => this.update());

  constructor() {
    this.item.name = 'Warplens';
    this.item.command = 'warplens.statusActions';
    this.update();
  }

  dispose(): void {
    this.item.dispose();
    this.subscription.dispose();
  }

  get state(): State {
    return this.shown.state;
  }

  get sentence(): string {
    return this.shown.message || SAYS[this.shown.state];
  }

  show(shown: Shown): void {
    this.shown = shown;
    this.update();
  }

  private update(): void {
    const { state, remedy } = this.shown;
    this.item.text = TEXT[state];
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
    return seen || this.shown.state === 'optimizing' || this.shown.state === 'noEnvironment';
  }
}
