// SPDX-License-Identifier: Apache-2.0
// No module imports itself over others, types included: what knows each other cannot be read one after another.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const SOURCE = join(import.meta.dirname, '..', 'src');

function imports(): Map<string, string[]> {
  const names = readdirSync(SOURCE).filter((name) => name.endsWith('.ts'));
  return new Map(
    names.map((name) => {
      const text = readFileSync(join(SOURCE, name), 'utf8');
      return [name, [...text.matchAll(/ from '\.\/([\w-]+\.ts)'/g)].map(([, imported = '']) => imported)];
    }),
  );
}

function circle(graph: Map<string, string[]>, path: string[]): string[] | undefined {
  for (const next of graph.get(path.at(-1) ?? '') ?? []) {
    if (path.includes(next)) return [...path, next];
    const found = circle(graph, [...path, next]);
    if (found) return found;
  }
  return undefined;
}

test('the imports of the extension have no circle', () => {
  const graph = imports();
  assert.ok(graph.size > 10);
  for (const name of graph.keys()) assert.equal(circle(graph, [name])?.join(' → '), undefined);
});

test('a circle would be found', () => {
  const graph = new Map([
    ['a.ts', ['b.ts']],
    ['b.ts', ['c.ts']],
    ['c.ts', ['b.ts']],
  ]);
  assert.deepEqual(circle(graph, ['a.ts']), ['a.ts', 'b.ts', 'c.ts', 'b.ts']);
});
