// SPDX-License-Identifier: Apache-2.0
// A VS Code server with a profile and a workspace of its own, and a browser looking at it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type * as playwright from 'playwright-core';

export const ROOT = resolve(import.meta.dirname, '../../..');
const TOOLS = join(ROOT, '.tools', 'vscode');
const ENTRY = join(TOOLS, 'node_modules', 'code-server', 'out', 'node', 'entry.js');
const VSIX = join(ROOT, 'extension', 'warplens.vsix');
const ARTIFACTS = join(ROOT, 'artifacts', 'vscode');
/** Seconds until something that has not shown will not: long, as other work may take the machine's cores. */
const PATIENCE = 180;
const { chromium } = createRequire(join(TOOLS, 'package.json'))('playwright-core') as typeof playwright;

export interface Options {
  /** Name of its folder of artefacts' log. */
  readonly name: string;
  /** Files or folders copied into the workspace. */
  readonly files: readonly string[];
  readonly settings?: Record<string, unknown>;
  /** Whether VS Code asks if the workspace is trusted. */
  readonly asksForTrust?: boolean;
  readonly environment?: NodeJS.ProcessEnv;
}

/** What to type into a list, and the row to take then. */
interface Row {
  readonly text: string;
  readonly row: string | RegExp;
}

export class Editor {
  readonly workspace: string;
  readonly storage: string;
  page!: playwright.Page;
  private readonly folder = mkdtempSync(join(tmpdir(), 'warplens-vscode-'));
  private readonly data = join(this.folder, 'data');
  private readonly options: Options;
  private server: ChildProcess | undefined;
  private browser: playwright.Browser | undefined;

  constructor(options: Options) {
    this.options = options;
    this.workspace = join(this.folder, 'workspace');
    this.storage = join(this.data, 'User', 'globalStorage', 'warplens.warplens');
  }

  async open(): Promise<void> {
    this.prepare();
    const port = await freePort();
    this.startServer(port);
    await healthy(port);
    this.browser = await chromium.launch({
      executablePath: readFileSync(join(TOOLS, 'browser'), 'utf8').trim(),
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    this.page = await this.browser.newPage({ viewport: { width: 1400, height: 860 } });
    this.page.setDefaultTimeout(PATIENCE * 1000);
    await this.page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(this.workspace)}`);
    await this.page.locator('.monaco-workbench .statusbar').waitFor();
  }

  async close(): Promise<void> {
    await this.browser?.close();
    if (this.server?.pid !== undefined) {
      try {
        process.kill(-this.server.pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
    this.keepLogs();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }

  /** `artifacts/vscode/NAME.png`. */
  async screenshot(name: string): Promise<void> {
    mkdirSync(ARTIFACTS, { recursive: true });
    await this.page.waitForTimeout(400); // what fades in has faded in
    await this.page.screenshot({ path: join(ARTIFACTS, `${name}.png`) });
  }

  /** Opens a file of the workspace with its caret at a place, 1-based, as in Go to File. */
  async openFile(name: string, line = 1, column = 1): Promise<void> {
    await this.pick('Control+P', [{ text: `${name}:${line}:${column}`, row: name }]);
    await this.page.locator('.tab.active', { hasText: name }).first().waitFor();
  }

  /** Puts the caret on a line of the active editor and that line in the middle. */
  async goTo(line: number): Promise<void> {
    await this.pick('Control+G', [{ text: `:${line}`, row: /Go to line/i }]);
  }

  /** Runs a command by its title; `picks` are taken one after another in the lists it shows. */
  async command(title: string, ...picks: readonly string[]): Promise<void> {
    const rows = picks.map((text) => ({ text, row: new RegExp(`^${text}`) }));
    await this.pick('F1', [{ text: `>${title}`, row: title }, ...rows]);
  }

  /** Holds the mouse over a word of the visible line that contains `text`, until a hover with `expected` shows. */
  async hover(text: string, word: string, expected: string): Promise<playwright.Locator> {
    const line = this.page.locator('.view-line', { hasText: text });
    const shown = this.page.locator('.monaco-hover-content', { hasText: expected }).first();
    await until(async () => {
      await this.page.mouse.move(0, 0);
      await line.locator('span > span', { hasText: word }).first().hover();
      return did(shown.waitFor({ timeout: 3_000 }));
    }, `a hover shows ${expected}`);
    return shown;
  }

  /**
   * Runs a code action at the caret by its title, through the light bulb's menu; where `asks` is given, until the input
   * of that title is there: on a busy machine a click may take effect after the time it was given.
   */
  async action(title: string, asks?: string): Promise<void> {
    const entry = this.page.locator('.action-widget .monaco-list-row', { hasText: title }).first();
    const input = asks === undefined ? undefined : this.input(asks);
    await until(async () => {
      if (await input?.isVisible()) return true;
      await this.page.keyboard.press('Control+Period');
      if (!(await did(entry.waitFor({ timeout: 1_000 })))) return undefined;
      await this.screenshot(`light-bulb-${this.options.name}`);
      const clicked = await did(entry.click({ timeout: 2_000 }));
      return input === undefined ? clicked : did(input.waitFor({ timeout: 5_000 }));
    }, `the action ${title} is offered`);
  }

  /** The quick input that shows a title. */
  input(title: string): playwright.Locator {
    return this.page.locator('.quick-input-widget', { hasText: title });
  }

  /** Types into the quick input of a title, and takes it. */
  async answer(title: string, text: string, screenshot: string): Promise<void> {
    const field = this.input(title).locator('input[type=text]').first();
    await field.fill(text);
    await this.screenshot(screenshot);
    await until(async () => {
      if (!(await did(field.press('Enter', { timeout: 2_000 })))) return undefined;
      return did(this.input(title).waitFor({ state: 'hidden', timeout: 5_000 }));
    }, `the input ${title} is taken`);
  }

  async save(): Promise<void> {
    await this.page.keyboard.press('Control+S');
  }

  /** Waits until the server has nothing to do. */
  async ready(): Promise<void> {
    await this.told(this.status.filter({ hasText: /^\s*Warplens$/ }).waitFor());
  }

  /** What `waiting` comes to; where it fails, with what the extension showed and logged, for whoever has no screen. */
  async told<T>(waiting: Promise<T>): Promise<T> {
    try {
      return await waiting;
    } catch (error) {
      const item = await this.status.innerHTML({ timeout: 5_000 }).catch(String);
      const marked = await this.page.locator('[class*=squiggly-]').count();
      const said = [...this.log('Warplens').split('\n'), ...this.log('Warplens Server').split('\n')];
      const log = said.filter((line) => !/\[info\] {3}|Location|Processing|Collecting/.test(line)).slice(-40);
      await this.screenshot(`failed-${this.options.name}`);
      const shown = `The status is ${item}; ${marked} places are marked. Logged:\n${log.join('\n')}`;
      throw new Error(`${String(error)}\n${shown}`, { cause: error });
    }
  }

  /** The page shown in a webview, by a text in it. */
  webview(text: string): playwright.Locator {
    const outer = this.page.locator('iframe.webview.ready').last().contentFrame();
    const frame = outer.frameLocator('#active-frame');
    return frame.locator('body', { hasText: text });
  }

  notification(text: string | RegExp): playwright.Locator {
    return this.page.locator('.notification-list-item, .notification-toast', { hasText: text }).first();
  }

  /** A labelled button in the title of an editor group. */
  titleButton(label: string): playwright.Locator {
    return this.page.locator('.editor-actions a.action-label', { hasText: label }).first();
  }

  get status(): playwright.Locator {
    return this.page.locator('.statusbar-item[id="warplens.warplens.warplens.status"]');
  }

  /** Text of the active editor as it is on disk, once `condition` holds; auto-save writes it. */
  async fileUntil(name: string, condition: (text: string) => boolean): Promise<string> {
    return until(() => {
      const text = readFileSync(join(this.workspace, name), 'utf8');
      return condition(text) ? text : undefined;
    }, `${name} is as expected`);
  }

  /**
   * Writes a file of the workspace as another program would, until the editor shows (or no longer shows) a line with
   * `word`: of a write that comes soon after the editor's own, on a busy machine, it may hear nothing.
   */
  async writeOutside(name: string, text: string, word: string, state: 'visible' | 'detached'): Promise<void> {
    const line = this.page.locator('.view-line', { hasText: word }).first();
    await until(async () => {
      writeFileSync(join(this.workspace, name), text);
      return did(line.waitFor({ state, timeout: 10_000 }));
    }, `${name} is read anew`);
  }

  /** Everything a channel of the extension has logged. */
  log(channel: string): string {
    const found = spawnSync('find', [join(this.data, 'logs'), '-name', `*${channel}.log`], {
      encoding: 'utf8',
    });
    return found.stdout
      .split('\n')
      .filter(Boolean)
      .map((path) => readFileSync(path, 'utf8'))
      .join('\n');
  }

  /** The process below this VS Code whose command line matches; others may run on the machine. */
  child(pattern: RegExp): number | undefined {
    const listed = spawnSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' }).stdout;
    const rows = [...listed.matchAll(/^ *(\d+) +(\d+) (.*)$/gm)];
    const parents = new Map(rows.map(([, pid, parent]) => [Number(pid), Number(parent)]));
    const isBelow = (pid: number | undefined): boolean =>
      pid !== undefined && (pid === this.server?.pid || isBelow(parents.get(pid)));
    const found = rows.find(([, pid, , command]) => pattern.test(command ?? '') && isBelow(Number(pid)));
    return found && Number(found[1]);
  }

  /**
   * Opens the quick input with a key and takes a row of each list it shows; all of it again where something that got
   * the focus has closed the input meanwhile, as a panel does that opens late.
   */
  private async pick(key: string, rows: readonly Row[]): Promise<void> {
    const widget = this.page.locator('.quick-input-widget');
    const input = widget.locator('input[type=text]').first();
    await until(
      async () => {
        await this.page.keyboard.press(key);
        for (const { text, row } of rows) {
          const entry = widget.locator('.monaco-list-row', { hasText: row }).first();
          if (!(await did(input.fill(text, { timeout: 2_000 })))) return undefined;
          if (!(await did(entry.click({ timeout: 5_000 })))) return undefined;
        }
        return true;
      },
      `the quick input takes ${rows.map(({ text }) => text).join(', ')}`,
    );
  }

  private prepare(): void {
    mkdirSync(this.workspace, { recursive: true });
    for (const file of this.options.files)
      cpSync(join(ROOT, file), join(this.workspace, file.split('/').at(-1) ?? file), { recursive: true });
    const settings = {
      'workbench.startupEditor': 'none',
      'window.commandCenter': false,
      'workbench.secondarySideBar.defaultVisibility': 'hidden',
      'workbench.reduceMotion': 'on',
      'chat.disableAIFeatures': true,
      'editor.minimap.enabled': false,
      'workbench.colorTheme': 'Default Dark Modern',
      ...this.options.settings,
    };
    // Machine-scoped settings are read from `Machine`, and in a fresh profile not always in time from `User`.
    for (const place of ['User', 'Machine']) {
      mkdirSync(join(this.data, place), { recursive: true });
      writeFileSync(join(this.data, place, 'settings.json'), JSON.stringify(settings));
    }
    const installed = spawnSync(process.execPath, [ENTRY, ...this.places(), '--install-extension', VSIX], {
      encoding: 'utf8',
      env: this.environment(),
    });
    if (installed.status !== 0)
      throw new Error(`the extension was not installed: ${installed.stdout}${installed.stderr}`);
  }

  private startServer(port: number): void {
    mkdirSync(ARTIFACTS, { recursive: true });
    const log = openSync(join(this.folder, 'code-server.log'), 'w');
    const args = [
      '--auth',
      'none',
      '--bind-addr',
      `127.0.0.1:${port}`,
      '--disable-telemetry',
      '--disable-update-check',
      '--disable-getting-started-override',
      '--ignore-last-opened',
      '--reconnection-grace-time',
      '0',
    ];
    if (!this.options.asksForTrust) args.push('--disable-workspace-trust');
    this.server = spawn(process.execPath, [ENTRY, ...this.places(), ...args], {
      detached: true,
      stdio: ['ignore', log, log],
      env: this.environment(),
    });
  }

  private places(): string[] {
    return ['--user-data-dir', this.data, '--extensions-dir', join(this.folder, 'extensions')];
  }

  private environment(): NodeJS.ProcessEnv {
    return { ...process.env, ...this.options.environment, EXTENSIONS_GALLERY: '{"serviceUrl":""}' };
  }

  /** The output channels, for whoever looks at a failure. */
  private keepLogs(): void {
    const kept = ['Warplens', 'Warplens Server', 'Warplens Trace'].map(
      (channel) => `==> ${channel}\n${this.log(channel)}`,
    );
    const server = join(this.folder, 'code-server.log');
    if (existsSync(server)) kept.push(`==> code-server\n${readFileSync(server, 'utf8')}`);
    writeFileSync(join(ARTIFACTS, `${this.options.name}.log`), kept.join('\n'));
  }
}

/** The first defined value of `probe`; throws after `seconds`. */
export async function until<T>(
  probe: () => T | undefined | Promise<T | undefined>,
  what: string,
  seconds = PATIENCE,
): Promise<T> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Whether an action was possible in its time. */
function did(action: Promise<void>): Promise<true | undefined> {
  return action.then(
    () => true,
    () => undefined,
  );
}

/** How many processes have a command line that matches. */
export function processes(pattern: RegExp): number {
  return Number(spawnSync('pgrep', ['-fc', pattern.source], { encoding: 'utf8' }).stdout.trim());
}

export function subfolders(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done) => probe.listen(0, '127.0.0.1', done));
  const address = probe.address();
  await new Promise((done) => probe.close(done));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

async function healthy(port: number): Promise<void> {
  await until(async () => {
    try {
      return (await fetch(`http://127.0.0.1:${port}/healthz`)).ok || undefined;
    } catch {
      return undefined;
    }
  }, 'VS Code answers');
}
