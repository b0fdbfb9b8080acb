// What is chosen in the time line, in words: the activation, and all that it did in order.

import { Button, Count, Duration, html, Link, Money, State, useState } from "../parts.js";
import { words } from "./activation.js";
import { moment } from "./timeline_scale.js";

const SHOWN = 40;

export function Detail({ row, now, live, onZoom, onOpen }) {
	const [all, setAll] = useState(false);
	const inOrder = [...row.bars].sort((one, other) => one.began - other.began);
	const bars = all ? inOrder : inOrder.slice(0, SHOWN);
	const step = (row.ended ?? now) - row.began < 20 ? 0.01 : 1;
	return html`<section class="tl-detail panel" aria-label="The chosen activation">
		<div class="spread">
			<h3><${State} state=${row.state} /> ${words(row)}${row.role ? html` <span class="quiet">by ${row.role}</span>` : null}</h3>
			<div class="row"><${Button} kind="small" run=${onZoom}>Zoom to it<//><${Button} kind="small primary" run=${() => onOpen(row.key)}>Open conversation<//></div>
		</div>
		${row.error ? html`<p class="complaint">${row.error}${row.final === false ? html` <span class="quiet">Another try follows.</span>` : null}</p>` : row.told ? html`<p class="quiet">${row.told}</p>` : null}
		<p class="tl-figures quiet"><span>began at <span class="num">${moment(row.began, step)}</span></span>
			<span><${Duration} seconds=${(row.ended ?? now) - row.began} />${row.ended === null && live ? " so far" : ""}</span>
			<span><${Count} value=${row.calls} /> ${row.calls === 1 ? "call" : "calls"}</span><span><${Count} value=${row.tokens} /> tokens</span>
			${row.usd ? html`<span><${Money} usd=${row.usd} /></span>` : null}</p>
		${bars.length ? html`<div class="tl-acts" tabIndex="0" role="region" aria-label="What it did"><table>
			<caption class="hidden">What it did, in order</caption>
			<thead class="hidden"><tr><th>At</th><th>What</th><th>Told</th><th>Took</th></tr></thead>
			<tbody>${bars.map((bar, number) => html`<tr key=${number} class=${bar.state === "failed" ? "failed" : ""}>
				<td class="num quieter">${moment(bar.began, step)}</td>
				<td><span class=${`tl-swatch k-${bar.kind} ${bar.state === "failed" ? "failed" : ""}`} aria-hidden="true"></span>${bar.kind}</td>
				<td class="tl-told"><${Link} run=${() => onOpen(bar.key || row.key)}>${bar.told || bar.key}<//></td>
				<td class="num right">${bar.state === "failed" ? html`<span class="tl-failed">failed</span> ` : null}<${Duration} seconds=${(bar.ended ?? now) - bar.began} /></td></tr>`)}</tbody>
		</table></div>` : null}
		${bars.length < row.bars.length ? html`<${Button} kind="small" run=${() => setAll(true)}>Show all ${row.bars.length}<//>` : null}
	</section>`;
}
