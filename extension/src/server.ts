// SPDX-License-Identifier: Apache-2.0
// Starts, restarts and ends `python -P -m warplens lsp`. Restarts go through a queue so that two never overlap;
// a server that keeps crashing is left stopped.
import * as vscode from 'vscode';
import {
  CloseAction,
  type CloseHandlerResult,
  DidChangeConfigurationNotification,
  ErrorAction,
  type ExecutableOptions,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  State,
} from 'vscode-languageclient/node';
import type { Interpreter } from './choose.ts';
import type { Environment } from './environment.ts';
import { errorText } from './error-text.ts';
import { executeCommand } from './jobs.ts';
import type { Logs } from './log.ts';
import { ACCEPTS, type InitializationOptions, STATUS, type StatusParams } from './protocol.ts';
import { explicitSettings } from './settings.ts';
import type { Status } from './status.ts';

const MAX_CRASHES = 4;
const CRASH_WINDOW_MS = 3 * 60_000;
const STOP_MS = 5_000;

export class Server implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private queue: Promise<void> = Promise.resolve();
  private crashes: number[] = [];
  private readonly starting = new vscode.EventEmitter<LanguageClient>();
  /** Fires before the handshake, so that a listener can register its handlers. */
  readonly onStarting = this.starting.event;
  private readonly runs = new vscode.EventEmitter<void>();
  /** Fires when the server can be spoken to. */
  readonly onRunning = this.runs.event;
  interpreter: Interpreter | undefined;
  private readonly subscriptions: { dispose(): unknown }[];

  constructor(
    private readonly extension: vscode.ExtensionContext,
    private readonly logs: Logs,
    private readonly environment: Environment,
    private readonly status: Status,
  ) {
    this.subscriptions = [
      this.starting,
      this.runs,
      environment.onDidChange((reason) => void this.restart(reason)),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration('warplens')) void this.sendSettings();
      }),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  get running(): LanguageClient | undefined {
    return this.client?.state === State.Running ? this.client : undefined;
  }

  restart(reason: string): Promise<void> {
    return this.enqueue(async () => {
      this.logs.client.info(`starting the server: ${reason}`);
      await this.stopNow();
      await this.startNow();
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.stopNow());
  }

  private enqueue(step: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(step).catch((error: unknown) => {
      const message = errorText(error);
      this.logs.client.error(message);
      this.status.show({ state: 'error', message: `The server did not start: ${message}` });
    });
    return this.queue;
  }

  private async stopNow(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    await vscode.commands.executeCommand('setContext', 'warplens.running', false);
    if (client === undefined) return;
    try {
      await client.dispose(STOP_MS);
    } catch (error) {
      this.logs.client.warn(`the server was ended: ${errorText(error)}`);
    }
  }

  private async startNow(): Promise<void> {
    this.crashes = [];
    this.status.show({ state: 'starting' });
    const { chosen, reasons } = await this.environment.resolve();
    this.interpreter = chosen;
    if (chosen === undefined) {
      this.status.show({ state: 'noEnvironment', message: reasons.at(-1) ?? '' });
      // Not awaited: the answer comes back through `onDidChange`, and the queue must not wait for the user.
      void this.environment.offer(false);
      return;
    }
    const client = this.makeClient(chosen);
    this.client = client;
    this.status.interpreter = chosen;
    this.starting.fire(client);
    client.onNotification(STATUS, (params: StatusParams) => this.status.show(params));
    await client.start();
    await vscode.commands.executeCommand('setContext', 'warplens.running', true);
    this.logs.client.info(`the server runs: ${chosen.command}`);
    if (this.status.state === 'starting') this.status.show({ state: 'ready' });
    this.runs.fire();
  }

  private makeClient(interpreter: Interpreter): LanguageClient {
    const options: ExecutableOptions = { cwd: this.extension.extensionPath, env: process.env };
    const args = ['-P', '-m', 'warplens', 'lsp'];
    return new LanguageClient(
      'warplens',
      'Warplens',
      { command: interpreter.command, args, options },
      this.clientOptions(),
    );
  }

  private clientOptions(): LanguageClientOptions {
    const initializationOptions = (): InitializationOptions => ({
      trusted: vscode.workspace.isTrusted,
      accepts: ACCEPTS,
    });
    return {
      documentSelector: [{ scheme: 'file', language: 'cuda-cpp' }],
      diagnosticCollectionName: 'Warplens',
      outputChannel: this.logs.server,
      traceOutputChannel: this.logs.trace,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions,
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => this.closed(),
      },
      middleware: {
        executeCommand: (command, args) => executeCommand(this.client, command, args),
        workspace: {
          configuration: (params) =>
            params.items.map((item) => {
              const resource = item.scopeUri === undefined ? undefined : vscode.Uri.parse(item.scopeUri);
              return item.section === 'warplens' ? this.settings(resource) : null;
            }),
          didChangeConfiguration: async () => this.sendSettings(),
        },
      },
      markdown: { supportThemeIcons: true },
    };
  }

  private settings(resource?: vscode.Uri): Record<string, unknown> {
    return explicitSettings(this.extension.extension, resource);
  }

  private async sendSettings(): Promise<void> {
    const settings = { warplens: this.settings() };
    await this.running?.sendNotification(DidChangeConfigurationNotification.type, { settings });
  }

  private closed(): CloseHandlerResult {
    const now = Date.now();
    this.crashes = [...this.crashes.filter((time) => now - time < CRASH_WINDOW_MS), now];
    if (this.crashes.length <= MAX_CRASHES) {
      this.status.show({ state: 'starting' });
      const message = `the server ended unexpectedly (${this.crashes.length} of ${MAX_CRASHES} restarts)`;
      this.logs.client.warn(message);
      return { action: CloseAction.Restart, message, handled: true };
    }
    const message = `The server ended ${this.crashes.length} times in three minutes and was left stopped`;
    this.status.show({
      state: 'error',
      message,
      remedy: 'see its output, then run "Warplens: Restart Server"',
    });
    this.logs.client.error(message);
    void vscode.commands.executeCommand('setContext', 'warplens.running', false);
    return { action: CloseAction.DoNotRestart, message, handled: true };
  }
}
