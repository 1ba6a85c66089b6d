// SPDX-License-Identifier: Apache-2.0
// The wheel this extension carries, as `bundle_wheel.py` described it when the extension was packaged.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Bundle {
  readonly version: string;
  /** Absolute paths. */
  readonly wheel: string;
  readonly constraints: string;
  readonly sha256: string;
  /** What the wheel needs from the package index, by name. */
  readonly requires: readonly string[];
}

/** Undefined in a checkout that was not packaged. */
export function readBundle(extensionPath: string): Bundle | undefined {
  const folder = join(extensionPath, 'bundled');
  let text: string;
  try {
    text = readFileSync(join(folder, 'bundle.json'), 'utf8');
  } catch {
    return undefined;
  }
  const said = JSON.parse(text) as Bundle;
  return {
    ...said,
    wheel: join(folder, said.wheel),
    constraints: join(folder, said.constraints),
  };
}
