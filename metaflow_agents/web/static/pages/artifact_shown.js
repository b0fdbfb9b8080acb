// One version of an artifact, or one of its files, as what it is.

import { Button, Bytes, Code, Copy, count, Empty, html, Loaded, Markdown, plural, Text, useEffect, useLoad, useState } from "../parts.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const RENDERED = ["markdown", "html", "svg", "table"];     // what has a source beside what is shown

/** `what` is {name, version, path?}; `known` is what the server told of it already. */
export function Shown({ api, run, what, known }) {
	const asked = useLoad(() => known || api.artifact(run, what), [api, run, known, what.name, what.version, what.path]);
	const [source, setSource] = useState(false);
	return html`<${Loaded} from=${asked}>${(shown) => {
		const both = RENDERED.includes(shown.kind) && (shown.lines || shown.text);
		return html`<div class="shown">
			<div class="spread shown-tools"><div class="row">${both ? html`<div class="row" role="group" aria-label="How it is shown">
					<${Button} kind="small" pressed=${!source} run=${() => setSource(false)}>Rendered<//><${Button} kind="small" pressed=${source} run=${() => setSource(true)}>Source<//></div>` : html`
					<span class="quiet">${shown.language || shown.media || shown.kind}</span>`}
				${shown.bytes ? html`<span class="quiet"><${Bytes} value=${shown.bytes} /></span>` : null}</div>
				${written(shown) ? html`<${Copy} text=${() => whole(api, run, shown)} />` : null}</div>
			${shown.told ? html`<p class="complaint">${shown.told}</p>` : null}
			<div class="panel shown-body">${source && both ? html`<${Source} shown=${shown} run=${run} api=${api} />` : html`<${Rendered} shown=${shown} what=${what} run=${run} api=${api} />`}</div>
			${shown.assumed?.length ? html`<p class="quiet">Assumed, since nobody answered: ${shown.assumed.join("; ")}</p>` : null}
		</div>`;
	}}<//>`;
}

/** The text of what is shown, as far as the server sent it. */
const written = (shown) => shown.text ?? shown.lines?.map((line) => line.map(([, text]) => text).join("")).join("\n");

const whole = async (api, run, shown) => (shown.cut && shown.digest ? (await api.text(run, shown.digest, shown.path)).text : written(shown));

function Source({ shown, run, api }) {
	const [all, setAll] = useState(null);
	if (!shown.lines || all) return html`<div class="padded-text"><${Text} text=${all || shown} run=${run} api=${api} /></div>`;
	return html`<${Code} lines=${shown.lines} label="Source" />${shown.cut ? html`<div class="padded-text cut"><span class="quiet">The beginning of ${count(shown.cut)} characters</span>
		${shown.digest ? html`<${Button} kind="small" run=${async () => setAll(await api.text(run, shown.digest, shown.path))}>Show all<//>` : null}</div>` : null}`;
}

function Rendered({ shown, what, run, api }) {
	const title = what.path || what.name;
	if (shown.kind === "markdown") return html`<div class="padded-text"><${Markdown} tree=${shown.tree} />${shown.cut ? html`<p class="quiet">(${count(shown.cut)} characters)</p>` : null}</div>`;
	// A page that somebody else wrote: without scripts, without our origin, without a network.
	if (shown.kind === "html") return html`<iframe class="page-frame" sandbox="" referrerpolicy="no-referrer" title=${`The page ${title}, without scripts`} src=${api.page(run, what)}></iframe>`;
	if (shown.kind === "svg" && !shown.cut) return html`<${Drawing} text=${written(shown)} name=${title} />`;
	if (shown.kind === "image" && PICTURES.includes(shown.media)) return html`<div class="picture"><img src=${`data:${shown.media};base64,${shown.data}`} width=${shown.width} height=${shown.height} alt=${`The image ${title}`} /></div>`;
	if (shown.rows) return html`<${Rows} table=${shown} />`;
	if (shown.lines || written(shown)) return html`<${Source} shown=${shown} run=${run} api=${api} />`;
	return html`<${Empty} title="Bytes, not text"><p>They stand in the run's folder; <code>sop show ${run} ${what.name}</code> says where.</p><//>`;
}

/** SVG as an image: an image runs no script and loads nothing. */
function Drawing({ text, name }) {
	const [address, setAddress] = useState("");
	useEffect(() => {
		const made = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
		setAddress(made);
		return () => URL.revokeObjectURL(made);
	}, [text]);
	return html`<div class="picture">${address ? html`<img src=${address} alt=${`The drawing ${name}`} />` : null}</div>`;
}

/** {columns, rows, total}: columns of nothing but numbers stand to the right. */
export function Rows({ table: { columns, rows, total } }) {
	const numeric = columns.map((_, place) => rows.length > 0 && rows.every((row) => row[place] === "" || Number.isFinite(Number(row[place]))));
	return html`<div class="table-scroll" tabIndex="0" role="region" aria-label="Table"><table class="table data">
		<caption class="hidden">${plural(total, "row")}</caption>
		<thead><tr>${columns.map((name, place) => html`<th key=${place} scope="col" class=${numeric[place] ? "right" : ""}>${name}</th>`)}</tr></thead>
		<tbody>${rows.map((row, number) => html`<tr key=${number}>${row.map((cell, place) => html`<td key=${place} class=${numeric[place] ? "num right" : ""}>${cell}</td>`)}</tr>`)}</tbody></table>
		${total > rows.length ? html`<p class="quiet padded-text">The first ${count(rows.length)} of ${count(total)} rows.</p>` : null}</div>`;
}
