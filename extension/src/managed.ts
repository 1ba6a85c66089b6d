// SPDX-License-Identifier: Apache-2.0
// The Python environment Warplens makes for itself, with consent, in the extension's own storage.
//
// Each bundled wheel has a folder of its own, and a mark is written into it last: what an interrupted
// installation left behind is never taken for an environment.
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from './bundle.ts';
import { isRecentEnough } from './choose.ts';
import { errorText } from './error-text.ts';
import { RunError, run } from './process.ts';

const MARK = 'warplens-environment.json';
const MINUTES = 60_000;

export interface Steps {
  readonly report: (message: string) => void;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export class ManagedEnvironment {
  readonly folder: string;
  private readonly storage: string;
  private readonly bundle: Bundle;

  constructor(storage: string, bundle: Bundle) {
    this.storage = storage;
    this.bundle = bundle;
    this.folder = join(storage, 'environments', `${bundle.version}-${bundle.sha256.slice(0, 12)}`);
  }

  get python(): string {
    return process.platform === 'win32'
      ? join(this.folder, 'Scripts', 'python.exe')
      : join(this.folder, 'bin', 'python');
  }

  async exists(): Promise<boolean> {
    try {
      const mark = JSON.parse(await readFile(join(this.folder, MARK), 'utf8')) as { sha256: string };
      return mark.sha256 === this.bundle.sha256;
    } catch {
      return false;
    }
  }

  /** Makes it anew from `base`, a Python that `findBase` returned. */
  async create(base: string, steps: Steps): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
    await mkdir(this.storage, { recursive: true });
    const options = (minutes: number) => ({
      cwd: this.storage,
      milliseconds: minutes * MINUTES,
      onLine: steps.log,
      signal: steps.signal,
    });
    try {
      steps.report('creating the environment');
      const pip = await this.createEmpty(base, options(3));
      steps.report(`installing Warplens ${this.bundle.version} and what it needs`);
      const install = [
        'install',
        '--no-input',
        '--disable-pip-version-check',
        '--progress-bar',
        'off',
        '--only-binary',
        ':all:',
      ];
      const what = ['--constraint', this.bundle.constraints, this.bundle.wheel];
      await run(pip[0], [...pip.slice(1), ...install, ...what], options(15));
      await writeFile(join(this.folder, MARK), JSON.stringify({ sha256: this.bundle.sha256, base }));
    } catch (error) {
      await rm(this.folder, { recursive: true, force: true });
      throw error;
    }
    await this.removeOthers();
  }

  /** Returns the pip to install with. Debian's Python has no ensurepip; its own pip can fill a bare environment. */
  private async createEmpty(
    base: string,
    options: Parameters<typeof run>[2],
  ): Promise<[string, ...string[]]> {
    try {
      await run(base, ['-m', 'venv', this.folder], options);
      return [this.python, '-m', 'pip'];
    } catch (error) {
      if (options.signal?.aborted) throw error;
    }
    await rm(this.folder, { recursive: true, force: true });
    try {
      await run(base, ['-m', 'venv', '--without-pip', this.folder], options);
      await run(base, ['-m', 'pip', '--version'], options);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new RunError(
        `${base} has neither ensurepip nor pip. Install them (Debian, Ubuntu: sudo apt-get install python3-venv) and try again.`,
      );
    }
    return [base, '-m', 'pip', '--python', this.python];
  }

  async remove(): Promise<void> {
    await rm(join(this.storage, 'environments'), { recursive: true, force: true });
  }

  private async removeOthers(): Promise<void> {
    const parent = join(this.storage, 'environments');
    for (const name of await readdir(parent)) {
      const other = join(parent, name);
      if (other !== this.folder) await rm(other, { recursive: true, force: true });
    }
  }
}

/** The first of `commands` that is Python 3.11 or newer, with a reason logged for each that is not. */
export async function findBase(
  commands: readonly string[],
  cwd: string,
  log: (line: string) => void,
): Promise<string | undefined> {
  const script = 'import json, sys; print(json.dumps(sys.version_info[:3]))';
  for (const command of commands) {
    try {
      const said = await run(command, ['-I', '-c', script], { cwd, milliseconds: 15_000 });
      const version = JSON.parse(said) as number[];
      if (isRecentEnough(version)) return command;
      log(`${command} cannot make the environment: Python ${version.join('.')} is older than 3.11`);
    } catch (error) {
      log(`${command} cannot make the environment: ${errorText(error)}`);
    }
  }
  return undefined;
}
