-- SPDX-License-Identifier: Apache-2.0
-- Opens transpose.cu as a person with the page's configuration would, and prints what the editor was given as JSON.
local seen = { version = vim.version().minor }

local function wait(what, condition)
  if not vim.wait(90000, condition, 50) then
    error('not seen: ' .. what)
  end
end

local function ask(method, params)
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 60000) or {}) do
    return answer.result
  end
end

vim.cmd('edit transpose.cu')
wait('the finding of the compiled kernel', function()
  for _, found in ipairs(vim.diagnostic.get(0)) do
    if found.code == 'WL108' then
      seen.finding = { line = found.lnum + 1, source = found.source, message = found.message }
      return true
    end
  end
  return false
end)

local document = vim.lsp.util.make_text_document_params()
wait('a lens over the kernel', function()
  seen.lens = (ask('textDocument/codeLens', { textDocument = document }) or {})[1]
  return seen.lens ~= nil
end)

vim.api.nvim_win_set_cursor(0, { seen.finding.line, 50 })
local here = vim.lsp.util.make_range_params(0, 'utf-16')
seen.hover = ask('textDocument/hover', { textDocument = document, position = here.range.start })
here.context = { diagnostics = {} }
for _, action in ipairs(ask('textDocument/codeAction', here)) do
  if action.title:find('^Pad the rows') then
    local resolved = action.edit and action or ask('codeAction/resolve', action)
    vim.lsp.util.apply_workspace_edit(resolved.edit, 'utf-16')
    seen.action = action.title
  end
end
vim.cmd('write')
wait('the finding is gone', function()
  return #vim.diagnostic.get(0) == 0
end)
seen.text = vim.api.nvim_buf_get_lines(0, 0, -1, false)
vim.fn.writefile({ vim.fn.json_encode(seen) }, 'seen.json')
vim.cmd('qa!')
