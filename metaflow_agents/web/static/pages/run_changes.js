// What changed in a run, the latest first: its commits, and what sub-SOPs made anew; by whom, and after what.

import { count, Duration, Empty, html, Link, Loaded } from "../parts.js";
import { useMade } from "./followed.js";

export function Changes({ api, run, to, feed, select }) {
	const asked = useMade(feed, () => api.changes(run), [api, run]);
	const link = ({ told, sign = " ", query }) => html`<${Link} key=${told} kind="mono" disabled=${!query} run=${() => to({ tab: "", name: "", version: "", a: "", b: "", path: "", ...query })}>${sign === " " ? "" : sign}${told}<//>`;
	return html`<${Loaded} from=${asked}>${({ changes, total }) => changes.length ? html`<ol class="commits">${changes.map((one) => html`
		<li><code class="quiet">${one.id?.slice(0, 8)}</code>
			<span class="commit-message">${one.key ? html`<${Link} kind="linked" run=${() => select(one.key, { view: "conversation" })}>${one.told}<//>` : one.told}
				${one.since.length ? html`<span class="quiet"> after ${one.since.map((read) => html`${link(read)} `)}</span>` : null}</span><span class="quiet"><${Duration} seconds=${one.seconds} /></span>
			<span class="commit-files">${one.files.map(link)}${one.more ? link({ told: `and ${one.more} more`, query: one.rest }) : null}</span></li>`)}
		${total > changes.length ? html`<li class="quiet">${count(total - changes.length)} earlier ones</li>` : null}</ol>` : html`<${Empty} title="Nothing has changed yet" />`}<//>`;
}
