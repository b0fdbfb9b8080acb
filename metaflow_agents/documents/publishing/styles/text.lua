-- Takes out every picture that does not lie in the folder, or is none by its first bytes, and every link that leads elsewhere than to the
-- web, a mail address, or beside the document; finds the title. Run by pandoc in the sandbox. What is lost of pictures goes to `lost.txt`.
-- A text that begins with its only heading of the first level is called so; one without a title is called `fallback`.

local WEB = { http = true, https = true }

-- The scheme of an address as a browser would find it, in lower case; "" for one that has none. What stands before a colon and is no
-- scheme (white space, control characters, an entity left in it) is none that is allowed either.
local function scheme(address)
  local before = address:match("^[^/?#]*"):match("^(.-):")
  return before and before:lower() or ""
end

-- Whether a link to it may be live. A path of the whole machine, or of another one (`//host`, `\\host`), may not.
local function may_lead_to(address)
  local found = scheme(address)
  if found == "" then return not address:find("^[%s%c]*[/\\]") end
  return WEB[found] or found == "mailto"
end

local function told(content, address)
  local words = pandoc.utils.stringify(content)
  if words == address then return content end
  local found = pandoc.List(content)
  found:insert(pandoc.Str(" (" .. address .. ")"))
  return found
end

local function lost(source, why)
  local file = assert(io.open("lost.txt", "a"))
  file:write((source:gsub("[%c]", " ")), "\t", why, "\n")
  file:close()
end

-- Why a picture can't be shown; nil where it can.
local function lacks(source)
  local elsewhere = "is no path of a file that the step reads"
  if source:find("^/") or source:find("\\") or source:find(":") or source:find("%%") then return elsewhere end
  for part in source:gmatch("[^/]+") do
    if part == ".." then return elsewhere end
  end
  local file = io.open(source, "rb")
  if not file then return "is not among the files that the step reads" end
  local first = file:read(512) or ""
  file:close()
  if first:find("^\137PNG\r\n\26\n") or first:find("^\255\216\255") or first:find("^GIF8[79]a")
    or first:find("^RIFF....WEBP") or first:find("<svg") then return nil end
  return "is no PNG, JPEG, GIF, WebP or SVG"
end

-- What stands in an attribute of the page.
local IN_ATTRIBUTES = { keywords = true, description = true, publisher = true, rights = true, identifier = true }
local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }
local function in_attribute(text)
  return pandoc.MetaInlines({ pandoc.RawInline("html", (text:gsub("[&<>\"']", ENTITIES))) })
end

-- What the front matter tells, as data: no word of it is read as Markdown.
local function meta(doc)
  local file = assert(io.open("told.json"))
  local all = pandoc.json.decode(file:read("a"), false)
  file:close()
  local many = { author = true, keywords = true }
  for name, values in pairs(all) do
    local texts = pandoc.List(values):map(function(text)
      if IN_ATTRIBUTES[name] and FORMAT:match("^html") then return in_attribute(text) end
      return pandoc.MetaInlines({ pandoc.Str(text) })
    end)
    if name == "cover-image" then
      if FORMAT == "docx" then doc.blocks:insert(1, pandoc.Para({ pandoc.Image({}, values[1]) })) end
      if FORMAT:match("^html") then doc.meta.cover = in_attribute(values[1]) end
    elseif name == "book" then
      doc.meta.book = (FORMAT:match("^html") or FORMAT == "typst") and true or nil
    elseif name ~= "toc" and (name ~= "papersize" or FORMAT:match("^html")) then        -- `toc` is an argument of pandoc
      doc.meta[name] = many[name] and pandoc.MetaList(texts) or texts[1]
    end
  end
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

local function within(doc)               -- a link to a heading that is not there is text: typst would refuse the whole document
  local there = {}
  doc.blocks:walk({ Header = function(heading) there[heading.identifier] = true end })
  doc.blocks = doc.blocks:walk({ Link = function(link)
    if link.target:sub(1, 1) ~= "#" then return nil end
    local name = link.target:sub(2):gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
    if not there[name] then return link.content end
    link.target = "#" .. name
    return link
  end })
end

return {
  { Image = function(image)
      local why = lacks(image.src)
      if not why then return nil end
      local caption = #image.caption > 0 and image.caption or pandoc.Inlines({ pandoc.Str("picture") })
      if WEB[scheme(image.src)] then return pandoc.Link(caption, image.src) end         -- nothing is loaded; who reads it may
      lost(image.src, why)
      return caption
    end },
  { Link = function(link)
      if may_lead_to(link.target) then return nil end
      return told(link.content, link.target)
    end },
  { RawInline = function(raw) return pandoc.Str(raw.text) end,      -- HTML in a text is text; a page would load what it names
    RawBlock = function(raw) return pandoc.Para({ pandoc.Str(raw.text) }) end },
  { Pandoc = function(doc)
      meta(doc)
      return doc
    end },
  { Table = function(shown)                     -- a column that says nothing of it begins at the left, also in a PDF
      shown.colspecs = shown.colspecs:map(function(column)
        if column[1] == "AlignDefault" then column[1] = "AlignLeft" end
        return column
      end)
      return shown
    end },
  { Str = function(text)              -- typst makes lists, dashes, quotes and links of marks; pandoc escapes some of them alone
      if FORMAT == "typst" then return pandoc.RawInline("typst", (text.text:gsub("%p", "\\%0"))) end
    end },
  { Pandoc = function(doc)
      title(doc)
      within(doc)
      if not doc.meta.title then
        doc.meta.pagetitle = doc.meta.fallback
        if FORMAT:match("epub") then doc.meta.title = doc.meta.fallback end
      end
      doc.meta.fallback = nil
      return doc
    end },
}
