-- Takes out every picture that does not lie in the folder, and what is none by its first bytes, and finds the title. Run by pandoc in the sandbox.
-- A text that begins with its only heading of the first level is called so; one without a title is called `fallback`.

local function lies_here(source)
  if source:find("^/") or source:find("\\") or source:find(":") or source:find("%%") then return false end
  for part in source:gmatch("[^/]+") do
    if part == ".." then return false end
  end
  local file = io.open(source, "rb")
  if not file then return false end
  local first = file:read(512) or ""
  file:close()
  return first:find("^\137PNG\r\n\26\n") or first:find("^\255\216\255") or first:find("^GIF8[79]a")
    or first:find("^RIFF....WEBP") or first:find("<svg") ~= nil
end

local function title(doc)
  if doc.meta.title then return end
  local first = doc.blocks[1]
  if not first or first.t ~= "Header" or first.level ~= 1 then return end
  for at = 2, #doc.blocks do
    if doc.blocks[at].t == "Header" and doc.blocks[at].level == 1 then return end
  end
  doc.meta.title = pandoc.MetaInlines(first.content)
  doc.blocks:remove(1)
  doc.blocks = doc.blocks:walk({ Header = function(heading)
    heading.level = math.max(heading.level - 1, 1)
    return heading
  end })
end

return {
  { Image = function(image)
      if lies_here(image.src) then return nil end
      local told = #image.caption > 0 and image.caption or { pandoc.Str("picture") }
      return pandoc.Emph({ pandoc.Str("["), table.unpack(told), pandoc.Str("]") })
    end },
  { RawInline = function(raw) return pandoc.Str(raw.text) end,      -- HTML in a text is text; a page would load what it names
    RawBlock = function(raw) return pandoc.Para({ pandoc.Str(raw.text) }) end },
  { Table = function(shown)                     -- a column that says nothing of it begins at the left, also in a PDF
      shown.colspecs = shown.colspecs:map(function(column)
        if column[1] == "AlignDefault" then column[1] = "AlignLeft" end
        return column
      end)
      return shown
    end },
  { Pandoc = function(doc)
      title(doc)
      if not doc.meta.title then
        doc.meta.pagetitle = doc.meta.fallback
        if FORMAT:match("epub") then doc.meta.title = doc.meta.fallback end
      end
      doc.meta.fallback = nil
      return doc
    end },
}
