// SPDX-License-Identifier: Apache-2.0
// Finds the Python that runs the server: the setting, then the environment Warplens made for itself, then the
// Python extension's interpreter, then PATH. If none has Warplens, offers to make one, saying what it downloads.
import * as vscode from 'vscode';
import { type Bundle, readBundle } from './bundle.ts';
import { type Candidate, type Choice, choose, PROBE_SCRIPT, type Probe, readProbe } from './choose.ts';
import { errorText } from './error-text.ts';
import { findBase, ManagedEnvironment } from './managed.ts';
import { run } from './process.ts';
import * as pythonExtension from './python-extension.ts';

const CONSENT = 'warplens.environmentConsent';

export class Environment implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<string>();
  /** Fires with the reason when another interpreter may be right now. */
  readonly onDidChange = this.changed.event;
  private readonly step = new vscode.EventEmitter<string | undefined>();
  /** Fires with each step while the environment is made; with undefined when it was not made. */
  readonly onStep = this.step.event;
  readonly bundle: Bundle | undefined;
  readonly managed: ManagedEnvironment | undefined;
  private readonly subscriptions: { dispose(): unknown }[] = [this.changed, this.step];
  private offered = false;
  private setting = setting();

  constructor(
    private readonly extension: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.bundle = readBundle(extension.extensionPath);
    this.managed = this.bundle && new ManagedEnvironment(extension.globalStorageUri.fsPath, this.bundle);
    this.subscriptions.push(
      vscode.workspace.onDidChangeConfiguration((event) => {
        // Granting trust reports every restricted setting as changed, whether its value did or not.
        if (!event.affectsConfiguration('warplens.interpreter') || setting() === this.setting) return;
        this.setting = setting();
        this.changed.fire('the setting warplens.interpreter changed');
      }),
      pythonExtension.onDidChangeInterpreter(() =>
        this.changed.fire("the Python extension's interpreter changed"),
      ),
    );
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  async resolve(): Promise<Choice> {
    const choice = await choose(await this.candidates(), (command) => this.probe(command));
    for (const reason of choice.reasons) this.log.info(`interpreter from ${reason}`);
    return choice;
  }

  /** Asks once per session, or whenever the user asks for it; makes the environment if the user agrees. */
  async offer(asked: boolean): Promise<void> {
    if (this.bundle === undefined || this.managed === undefined) {
      if (asked)
        void vscode.window.showErrorMessage('This build of the extension carries no wheel to install.');
      return;
    }
    if (!asked && this.extension.globalState.get(CONSENT) === true) {
      // Agreed to before; an update of the extension brings a new wheel.
      return this.create(this.bundle, this.managed);
    }
    if (!asked && this.offered) return;
    this.offered = true;
    const create = 'Create Environment';
    const select = 'Select Interpreter…';
    // Whoever asked for it gets a question that stays; else it is one that may be overlooked, as the status item says.
    const options = { modal: asked };
    const question = this.question(this.bundle);
    const answer = await vscode.window.showInformationMessage(question, options, create, select);
    if (answer === select) await this.selectInterpreter();
    if (answer !== create) return;
    await this.extension.globalState.update(CONSENT, true);
    await this.create(this.bundle, this.managed);
  }

  async remove(): Promise<void> {
    await this.extension.globalState.update(CONSENT, undefined);
    await this.managed?.remove();
    this.log.info("removed Warplens' own environment");
    this.changed.fire('the environment was removed');
  }

  async selectInterpreter(): Promise<void> {
    const chosen = await vscode.window.showOpenDialog({
      title: 'A Python 3.11 or newer with Warplens installed',
      openLabel: 'Select Interpreter',
    });
    const path = chosen?.[0]?.fsPath;
    if (path === undefined) return;
    await vscode.workspace
      .getConfiguration('warplens')
      .update('interpreter', path, vscode.ConfigurationTarget.Global);
  }

  private question(bundle: Bundle): string {
    return (
      'Warplens runs on Python 3.11 or newer. Create its own environment? ' +
      `Warplens ${bundle.version} comes with the extension; pip downloads what it needs from your Python ` +
      `package index (${bundle.requires.join(', ')} and their dependencies). Nothing else on this machine changes.`
    );
  }

  private async create(bundle: Bundle, managed: ManagedEnvironment): Promise<void> {
    const log = (line: string): void => this.log.info(line);
    this.step.fire('looking for a Python 3.11 or newer');
    const base = await findBase(await this.basePythons(), this.extension.extensionPath, log);
    if (base === undefined) {
      this.step.fire(undefined);
      void vscode.window.showErrorMessage('No Python 3.11 or newer was found. Install one and try again.');
      return;
    }
    log(`making ${managed.folder} with ${base} from ${bundle.wheel}`);
    const title = 'Warplens';
    const location = vscode.ProgressLocation.Notification;
    await vscode.window.withProgress({ title, location, cancellable: true }, async (progress, token) => {
      const abort = new AbortController();
      const cancelled = token.onCancellationRequested(() => abort.abort());
      const report = (message: string): void => {
        progress.report({ message });
        this.step.fire(message);
      };
      try {
        await managed.create(base, { report, log, signal: abort.signal });
      } catch (error) {
        this.failed(error, abort.signal.aborted);
        return;
      } finally {
        cancelled.dispose();
      }
      this.changed.fire('the environment was created');
    });
  }

  private failed(error: unknown, cancelled: boolean): void {
    const message = errorText(error);
    this.log.error(`the environment was not created: ${message}`);
    this.step.fire(undefined);
    if (cancelled) return;
    const show = 'Show Output';
    void vscode.window
      .showErrorMessage(`The environment was not created: ${message}`, show)
      .then((answer) => answer === show && this.log.show());
  }

  private async candidates(): Promise<Candidate[]> {
    if (this.setting !== '') return [{ origin: 'setting', command: this.setting }];
    const candidates: Candidate[] = [];
    if (this.managed !== undefined) {
      if (await this.managed.exists()) {
        candidates.push({ origin: 'managed environment', command: this.managed.python });
      } else this.log.info('interpreter from managed environment: passed over, it was not created');
    }
    const other = await this.interpreterOfPythonExtension();
    if (other !== undefined) candidates.push({ origin: 'Python extension', command: other });
    for (const command of pathPythons()) candidates.push({ origin: 'PATH', command });
    return candidates;
  }

  /** May lie inside the workspace, hence only once that is trusted. */
  private async interpreterOfPythonExtension(): Promise<string | undefined> {
    return vscode.workspace.isTrusted ? pythonExtension.interpreter() : undefined;
  }

  private async basePythons(): Promise<string[]> {
    const other = await this.interpreterOfPythonExtension();
    const newer =
      process.platform === 'win32' ? ['py'] : ['python3.14', 'python3.13', 'python3.12', 'python3.11'];
    return [...pathPythons(), ...newer, ...(other === undefined ? [] : [other])];
  }

  private async probe(command: string): Promise<Probe> {
    try {
      const options = { cwd: this.extension.extensionPath, milliseconds: 15_000 };
      return readProbe(await run(command, ['-c', PROBE_SCRIPT], options));
    } catch (error) {
      return { usable: false, reason: errorText(error) };
    }
  }
}

function setting(): string {
  return vscode.workspace.getConfiguration('warplens').get<string>('interpreter', '').trim();
}

function pathPythons(): string[] {
  return process.platform === 'win32' ? ['python'] : ['python3', 'python'];
}
