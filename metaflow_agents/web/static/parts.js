// What pages are made of, under one name each.

export { Component, createContext, h, html, useCallback, useContext, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/preact-htm.js";
export { announce, useLatest, useLoad, useModule, useNow, useRows, useShortcuts, useSize, useTitle } from "./hooks.js";
export { Button, Choice, Complaint, Confirm, Dialog, Entry, Field, Link, Menu, Tick, Search, Tabs } from "./parts/controls.js";
export { ago, bytes, clock, count, duration, hue, modelName, money, plural } from "./parts/figures.js";
export { Bytes, Count, Duration, Meter, Money, State, Time } from "./parts/figures.js";
export { Empty, Loaded, Loading, Problem, Table, VirtualList } from "./parts/lists.js";
export { Code, Copy, Diff, Markdown, Text } from "./parts/texts.js";
