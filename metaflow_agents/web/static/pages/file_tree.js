// Paths as a tree of folders; a folder that holds one other alone stands in one line with it.

import { bytes, html, useState } from "../parts.js";

/** {folders: Map(name → the same), files: [entry]} of entries {path, told, bytes, note?}: `told` is the path made harmless. */
export function folders(entries) {
	const root = { folders: new Map(), files: [] };
	for (const entry of entries) {
		const parts = (entry.told ?? entry.path).split("/");
		let at = root;
		for (const part of parts.slice(0, -1)) {
			if (!at.folders.has(part)) at.folders.set(part, { folders: new Map(), files: [] });
			at = at.folders.get(part);
		}
		at.files.push({ ...entry, name: parts.at(-1) });
	}
	return root;
}

const MANY = 300;                       // in one folder: the rest by a button

export function FileTree({ entries, chosen, onChoose, label = "Files", sorted = true }) {
	return html`<nav class="file-tree" aria-label=${label}><${Level} folder=${folders(entries)} prefix="" chosen=${chosen} onChoose=${onChoose} sorted=${sorted} depth=${0} many=${entries.length > 60} /></nav>`;
}

function Level({ folder, prefix, chosen, onChoose, sorted = true, depth, many }) {
	const [shown, setShown] = useState(MANY);
	const inner = [...folder.folders].sort(([a], [b]) => a.localeCompare(b)).map(([name, held]) => squeezed(name, held));
	const files = sorted ? [...folder.files].sort((a, b) => a.name.localeCompare(b.name)) : folder.files;
	return html`<ul class="file-level">
		${inner.map(([name, held]) => html`<${Folder} key=${`${name}/`} name=${name} folder=${held} prefix=${`${prefix}${name}/`} chosen=${chosen} onChoose=${onChoose} depth=${depth} many=${many} />`)}
		${files.slice(0, shown).map((file) => html`<li key=${file.path}><button class=${`file ${file.path === chosen ? "chosen" : ""}`} aria-current=${file.path === chosen ? "true" : undefined} title=${file.told ?? file.path}
			onClick=${() => onChoose(file)}><span class="cut-line">${file.name}</span>${file.note ? html`<span class="quiet">${file.note}</span>` : null}${file.bytes === null ? null : html`<span class="quieter num">${bytes(file.bytes)}</span>`}</button></li>`)}
		${files.length > shown ? html`<li><button class="button small" onClick=${() => setShown(shown + 2000)}>${files.length - shown} more</button></li>` : null}</ul>`;
}

function squeezed(name, folder) {
	if (folder.files.length || folder.folders.size !== 1) return [name, folder];
	const [[next, held]] = folder.folders;
	return squeezed(`${name}/${next}`, held);
}

function Folder({ name, folder, prefix, chosen, onChoose, depth, many }) {
	const [open, setOpen] = useState(!many || depth < 1);
	const shown = open || (chosen || "").startsWith(prefix);
	return html`<li><button class="file folder" aria-expanded=${String(shown)} onClick=${() => setOpen(!shown)}><span class="part-arrow" aria-hidden="true">${shown ? "▾" : "▸"}</span><span class="cut-line">${name}/</span></button>
		${shown ? html`<${Level} folder=${folder} prefix=${prefix} chosen=${chosen} onChoose=${onChoose} depth=${depth + 1} many=${many} />` : null}</li>`;
}
