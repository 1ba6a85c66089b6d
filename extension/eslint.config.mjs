// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from 'eslint/config';
import { configs } from 'typescript-eslint';

export default defineConfig(
  { ignores: ['**/node_modules/', '**/dist/'] },
  {
    files: ['**/*.ts'],
    extends: [configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      complexity: ['error', 12],
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 80],
    },
  },
  {
    // `test` of node:test returns a promise that the runner awaits.
    files: ['**/*.test.ts'],
    rules: { '@typescript-eslint/no-floating-promises': 'off' },
  },
);
