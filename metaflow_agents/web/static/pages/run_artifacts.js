import { html } from "../vendor/preact-htm.js";
export default () => html`<p class="quiet">The time line comes here.</p>`;
