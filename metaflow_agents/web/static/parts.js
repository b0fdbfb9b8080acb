// The components that pages share, under one name each.

export { h, html } from "./vendor/preact-htm.js";
export { Button, Choice, Confirm, Dialog, Entry, Field, Menu, Tick, Search, Tabs } from "./parts/controls.js";
export { ago, bytes, clock, count, duration, hue, money, plural } from "./parts/figures.js";
export { Bytes, Count, Duration, Meter, Money, State, Time } from "./parts/figures.js";
export { Empty, Loading, Problem, Table, VirtualList } from "./parts/lists.js";
export { Code, Copy, Diff, Markdown, Text } from "./parts/texts.js";
