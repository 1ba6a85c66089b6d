// SPDX-License-Identifier: Apache-2.0
// What a caught value says.
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
