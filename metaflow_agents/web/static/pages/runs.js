import { html } from "../vendor/preact-htm.js";

export default () => html`<div class="page"><h1>Not built yet</h1></div>`;
